/** Icons and previews by file kind. */

import {
  File,
  FileArchive,
  FileBraces,
  FileChartPie,
  FileCode,
  FileHeadphone,
  FileImage,
  FilePlay,
  FileSpreadsheet,
  FileText,
  Globe,
  type LucideIcon,
} from "lucide-react";
import { endingOf, type FileKind, isPicture } from "@/files/kinds";

const ICONS: Readonly<Record<FileKind, LucideIcon>> = {
  image: FileImage,
  table: FileSpreadsheet,
  slides: FileChartPie,
  document: FileText,
  page: Globe,
  data: FileBraces,
  code: FileCode,
  sound: FileHeadphone,
  film: FilePlay,
  archive: FileArchive,
  file: File,
};

export function kindIcon(kind: FileKind): LucideIcon {
  return ICONS[kind];
}

/** Preview kind of a file, null for text only. */
export type Preview = "film" | "markdown" | "office" | "page" | "pdf" | "picture" | "sound" | "table";

const OFFICE = "pptx pptm ppsx potx docx docm dotx xlsx xlsm xltx zip skill".split(" ");
const PREVIEWS: Readonly<Record<string, Preview>> = {
  ...Object.fromEntries(OFFICE.map((ending) => [ending, "office"] as const)),
  ...Object.fromEntries(["mp3", "wav", "ogg", "flac", "m4a"].map((ending) => [ending, "sound"] as const)),
  ...Object.fromEntries(["mp4", "webm", "mov"].map((ending) => [ending, "film"] as const)),
  md: "markdown",
  markdown: "markdown",
  html: "page",
  htm: "page",
  svg: "page",
  pdf: "pdf",
  csv: "table",
  tsv: "table",
};
const NO_TEXT =
  "xls xlsx xlsm xltx ods parquet ppt pptx pptm ppsx potx odp doc docx docm dotx odt skill rtf sqlite db mp3 wav ogg flac m4a mp4 webm mov zip tar gz tgz bz2 xz 7z bmp tiff pdf".split(
    " ",
  );

export function previewOf(path: string): Preview | null {
  return isPicture(path) ? "picture" : (PREVIEWS[endingOf(path)] ?? null);
}

/** Return true if the extension may be text. */
export function mayBeText(path: string): boolean {
  return !isPicture(path) && !NO_TEXT.includes(endingOf(path));
}
