/** Files attached to the next message. */

import { CircleAlert, Paperclip, X } from "lucide-react";
import type { UploadLimits } from "@/api/files";
import type { Attachment, Attachments } from "@/features/chat/composer/attachments";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatSize } from "@/i18n/format";
import { type Language, type Strings, sentence } from "@/i18n/i18n";
import { IconButton } from "@/ui/IconButton";

interface Props {
  readonly all: Attachments;
  readonly limits: UploadLimits | null;
  readonly onRemove: (attachment: Attachment) => void;
}

export function AttachmentChips({ all, limits, onRemove }: Props) {
  const strings = useStrings();
  if (all.length === 0) return null;
  return (
    <ul
      aria-label={strings.attachedFiles}
      className="flex max-h-40 flex-wrap gap-2 overflow-y-auto px-3 pt-3"
    >
      {all.map((each) => (
        <Chip key={each.id} attachment={each} limits={limits} onRemove={() => onRemove(each)} />
      ))}
    </ul>
  );
}

interface ChipProps {
  readonly attachment: Attachment;
  readonly limits: UploadLimits | null;
  readonly onRemove: () => void;
}

function Chip({ attachment, limits, onRemove }: ChipProps) {
  const strings = useStrings();
  const language = useLanguage();
  const { name, size, image, state } = attachment;
  const failed = state.phase === "failed";
  const Icon = failed ? CircleAlert : Paperclip;
  return (
    <li
      className={`relative flex max-w-full items-center gap-2 overflow-hidden rounded-box border py-0.5 pr-1 pl-2 text-small ${
        failed ? "border-error/40 bg-error-tint text-error" : "border-line text-soft"
      }`}
    >
      {image !== null && !failed ? (
        <img src={image} alt="" className="-ml-1.5 size-16 shrink-0 rounded-[5px] object-cover" />
      ) : (
        <Icon aria-hidden className="size-3.5 shrink-0" />
      )}
      <span className={`flex min-w-0 gap-x-2 ${image !== null && !failed ? "flex-col" : "flex-wrap"}`}>
        <span title={name} className="max-w-56 truncate">
          {name}
        </span>
        <span role={failed ? "alert" : undefined} className={failed ? "" : "shrink-0 text-faint"}>
          {failed ? describeFault(state, limits, strings, language) : formatSize(size, language)}
        </span>
      </span>
      <IconButton icon={X} label={strings.removeFile(name)} onClick={onRemove} />
      {state.phase === "sending" && (
        <progress
          aria-label={strings.uploading(name)}
          value={state.part}
          max={1}
          className="absolute inset-x-0 bottom-0 h-0.5 w-full appearance-none bg-line accent-accent [&::-webkit-progress-bar]:bg-line [&::-webkit-progress-value]:bg-accent"
        />
      )}
    </li>
  );
}

function describeFault(
  { fault, reason }: Extract<Attachment["state"], { readonly phase: "failed" }>,
  limits: UploadLimits | null,
  strings: Strings,
  language: Language,
): string {
  if (fault === "refused" && reason !== "") return sentence(reason);
  if (limits === null) return strings.uploadFaults[fault];
  if (fault === "too large") return strings.fileLimit(formatSize(limits.max_file_size, language));
  if (fault === "too large together") return strings.filesLimit(formatSize(limits.max_total_size, language));
  return fault === "too many" ? strings.fileCountLimit(limits.max_files) : strings.uploadFaults[fault];
}
