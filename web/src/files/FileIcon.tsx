/** Icon of a file on a small square in the colour of its kind. */

import { type FileKind, fileKind } from "@/files/kinds";
import { kindIcon } from "@/files/previews";

const LOOKS: Readonly<Record<FileKind, string>> = {
  image: "bg-rose-tint text-rose",
  table: "bg-green-tint text-green",
  slides: "bg-amber-tint text-amber",
  document: "bg-blue-tint text-blue",
  page: "bg-teal-tint text-teal",
  data: "bg-violet-tint text-violet",
  code: "bg-violet-tint text-violet",
  sound: "bg-rose-tint text-rose",
  film: "bg-rose-tint text-rose",
  archive: "bg-tint text-soft",
  file: "bg-tint text-soft",
};

export function FileIcon({ path, large = false }: { path: string; large?: boolean }) {
  const kind = fileKind(path);
  const Icon = kindIcon(kind);
  return (
    <span
      aria-hidden
      data-kind={kind}
      className={`flex shrink-0 items-center justify-center rounded-box ${LOOKS[kind]} ${large ? "size-9" : "size-6"}`}
    >
      <Icon className={large ? "size-5" : "size-4"} />
    </span>
  );
}
