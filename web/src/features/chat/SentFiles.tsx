/** The files that came with a message. */

import { Paperclip } from "lucide-react";
import { useAddresses, useLanguage, useWords } from "@/app/context";
import type { SentFile } from "@/run/files";
import { sizeWords } from "@/words/words";

export function SentFiles({ files }: { files: readonly SentFile[] }) {
  const words = useWords();
  const addresses = useAddresses();
  const language = useLanguage();
  return (
    <ul aria-label={words.attachedFiles} className="flex max-w-full flex-wrap justify-end gap-2">
      {files.map(({ filename, path, size }) => (
        <li key={path || filename} className="min-w-0 max-w-full">
          <a
            // Who reads under a link is told the names alone.
            href={path === "" ? undefined : addresses.artifact(path, { download: true })}
            download={filename}
            title={path === "" ? filename : words.download(filename)}
            className="flex h-8 min-w-0 items-center gap-2 rounded-box border border-line px-2 text-small text-soft [&[href]]:hover:bg-tint [&[href]]:hover:text-ink"
          >
            <Paperclip aria-hidden className="size-3.5 shrink-0 text-faint" />
            <span className="truncate">{filename}</span>
            {size > 0 && <span className="shrink-0 text-faint">{sizeWords(size, language)}</span>}
          </a>
        </li>
      ))}
    </ul>
  );
}
