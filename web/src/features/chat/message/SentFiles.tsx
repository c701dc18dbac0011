/** Files sent with a message. */

import { Paperclip } from "lucide-react";
import type { SentFile } from "@/api/sentFiles";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatSize } from "@/i18n/format";
import { useFileUrls } from "@/ui/FileUrls";

export function SentFiles({ files }: { files: readonly SentFile[] }) {
  const strings = useStrings();
  const urls = useFileUrls();
  const language = useLanguage();
  return (
    <ul aria-label={strings.attachedFiles} className="flex max-w-full flex-wrap justify-end gap-2">
      {files.map(({ filename, path, size }) => (
        <li key={path || filename} className="min-w-0 max-w-full">
          <a
            // Shared pages show names without links.
            href={path === "" ? undefined : urls.artifact(path, { download: true })}
            download={filename}
            title={path === "" ? filename : strings.download(filename)}
            className="flex h-8 min-w-0 items-center gap-2 rounded-box border border-line px-2 text-small text-soft [&[href]]:hover:bg-tint [&[href]]:hover:text-ink"
          >
            <Paperclip aria-hidden className="size-3.5 shrink-0 text-faint" />
            <span className="truncate">{filename}</span>
            {size > 0 && <span className="shrink-0 text-faint">{formatSize(size, language)}</span>}
          </a>
        </li>
      ))}
    </ul>
  );
}
