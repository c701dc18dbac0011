/** File kinds by extension. */

import { fileName } from "@/api/artifacts";
import type { Strings } from "@/i18n/i18n";

export type FileKind = keyof Strings["fileKinds"];

const ENDINGS: Readonly<Record<FileKind, string>> = {
  image: "png jpg jpeg gif webp svg bmp tiff",
  table: "csv tsv xls xlsx xlsm xltx ods parquet",
  slides: "ppt pptx pptm ppsx potx odp",
  document: "pdf doc docx docm dotx odt md txt rtf",
  page: "html htm",
  data: "json yaml yml xml toml sqlite db",
  code: "py js ts tsx jsx css sh sql rs go java c cpp h rb php r ipynb",
  sound: "mp3 wav ogg flac m4a",
  film: "mp4 webm mov",
  archive: "zip tar gz tgz bz2 xz 7z",
  file: "",
};
const SHOWN_IN_PLACE = ["png", "jpg", "jpeg", "gif", "webp"];

/** Return the lower-case extension without the dot. */
export function endingOf(path: string): string {
  return /[^.]\.([^.]+)$/.exec(fileName(path))?.[1]?.toLowerCase() ?? "";
}

export function fileKind(path: string): FileKind {
  const ending = endingOf(path);
  const kinds = Object.keys(ENDINGS) as FileKind[];
  return kinds.find((kind) => ending !== "" && ENDINGS[kind].split(" ").includes(ending)) ?? "file";
}

/** Return true for images that are safe to show. */
export function isPicture(path: string): boolean {
  return SHOWN_IN_PLACE.includes(endingOf(path));
}

const WELL_KNOWN: Readonly<Record<string, string>> = { md: "Markdown", txt: "TXT", ipynb: "Notebook" };

/** Describe a file kind: "PNG image", "Markdown". */
export function describeKind(path: string, strings: Strings): string {
  const ending = endingOf(path);
  return WELL_KNOWN[ending] ?? `${ending.toUpperCase()} ${strings.fileKinds[fileKind(path)]}`.trim();
}
