/** Files sent with a message. Images are shown. */

import { Download, Paperclip } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import type { SentFile } from "@/api/sentFiles";
import { isPicture } from "@/files/kinds";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatSize } from "@/i18n/format";
import { useFileUrls } from "@/ui/FileUrls";

const Lightbox = lazy(() => import("@/ui/Lightbox"));

export function SentFiles({ files }: { files: readonly SentFile[] }) {
  const strings = useStrings();
  const [lost, setLost] = useState<readonly string[]>([]);
  const shown = (file: SentFile) => file.path !== "" && isPicture(file.filename) && !lost.includes(file.path);
  return (
    <ul aria-label={strings.attachedFiles} className="flex max-w-full flex-wrap justify-end gap-2">
      {files.map((file) => (
        <li key={file.path || file.filename} className="min-w-0 max-w-full">
          {shown(file) ? (
            <Picture file={file} onLost={() => setLost([...lost, file.path])} />
          ) : (
            <Chip file={file} />
          )}
        </li>
      ))}
    </ul>
  );
}

// Twice the size it is shown at, for dense screens.
const THUMBNAIL_PX = 512;

function Picture({ file: { filename, path }, onLost }: { file: SentFile; onLost: () => void }) {
  const strings = useStrings();
  const urls = useFileUrls();
  const [enlarged, setEnlarged] = useState(false);
  return (
    <>
      <button
        type="button"
        title={filename}
        onClick={() => setEnlarged(true)}
        className="block cursor-zoom-in overflow-hidden rounded-box border border-line bg-rail"
      >
        <img
          src={urls.thumbnail?.(path, THUMBNAIL_PX) ?? urls.artifact(path)}
          alt={filename}
          loading="lazy"
          onError={onLost}
          className="size-[200px] max-w-full object-cover"
        />
      </button>
      {enlarged && (
        <Suspense>
          <Lightbox image={urls.artifact(path)} label={filename} onClose={() => setEnlarged(false)}>
            <a
              href={urls.artifact(path, { download: true })}
              download={filename}
              aria-label={strings.download(filename)}
              title={strings.download(filename)}
              className="inline-flex size-8 shrink-0 items-center justify-center rounded-box text-faint hover:bg-tint hover:text-ink"
            >
              <Download aria-hidden className="size-4" />
            </a>
          </Lightbox>
        </Suspense>
      )}
    </>
  );
}

function Chip({ file: { filename, path, size } }: { file: SentFile }) {
  const strings = useStrings();
  const urls = useFileUrls();
  const language = useLanguage();
  return (
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
  );
}
