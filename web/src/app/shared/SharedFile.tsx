/** File dialog of a shared thread. */

import { Download, X } from "lucide-react";
import { Suspense } from "react";
import { fileName } from "@/api/artifacts";
import { FilePreview } from "@/files/FilePreview";
import { mayBeText, previewOf } from "@/files/previews";
import { useText } from "@/files/useText";
import { useStrings } from "@/i18n/context";
import { Dialog } from "@/ui/Dialog";
import { useFileUrls } from "@/ui/FileUrls";
import { IconButton } from "@/ui/IconButton";
import { ErrorState, LoadingState } from "@/ui/states";

export default function SharedFile({ path, onClose }: { path: string; onClose: () => void }) {
  const strings = useStrings();
  const urls = useFileUrls();
  const name = fileName(path);
  const preview = previewOf(path);
  return (
    <Dialog label={name} onClose={onClose} className="h-[88dvh] w-[min(60rem,94vw)]">
      <div className="flex h-12 shrink-0 items-center gap-1 border-b border-line pr-2 pl-4">
        <h2 title={path} className="min-w-0 flex-1 truncate font-medium">
          {name}
        </h2>
        <a
          href={urls.artifact(path, { download: true })}
          download={name}
          aria-label={strings.download(name)}
          title={strings.download(name)}
          className="inline-flex size-8 shrink-0 items-center justify-center rounded-box text-faint hover:bg-tint hover:text-ink"
        >
          <Download aria-hidden className="size-4" />
        </a>
        <IconButton icon={X} label={strings.close} onClick={onClose} />
      </div>
      <Suspense fallback={<LoadingState />}>
        {preview !== null ? (
          <FilePreview kind={preview} threadId="" path={path} />
        ) : mayBeText(path) ? (
          <PlainText path={path} />
        ) : (
          <ErrorState text={strings.noPreview} />
        )}
      </Suspense>
    </Dialog>
  );
}

function PlainText({ path }: { path: string }) {
  const strings = useStrings();
  const file = useText("", path);
  if (file.isPending) return <LoadingState />;
  if (file.isError) return <ErrorState text={strings.fileMissing} onRetry={() => void file.refetch()} />;
  if (file.data === null) return <ErrorState text={strings.noPreview} />;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
    <pre tabIndex={0} className="min-h-0 flex-1 overflow-auto p-4 font-mono text-small">
      {file.data.text}
    </pre>
  );
}
