/** Files sent with a message. */

import { isRecord } from "@/api/json";

export interface SentFile {
  readonly filename: string;
  readonly size: number;
  /** Virtual path. */
  readonly path: string;
}

/** Parse the files of a message. */
export function sentFilesOf(extra: unknown): readonly SentFile[] {
  const files = isRecord(extra) ? extra.files : null;
  if (!Array.isArray(files)) return NO_FILES;
  return files.flatMap((file) => {
    if (!isRecord(file) || typeof file.filename !== "string" || typeof file.path !== "string") return [];
    return [
      { filename: file.filename, path: file.path, size: typeof file.size === "number" ? file.size : 0 },
    ];
  });
}

/** Return the message fields for files. */
export function withFiles(files: readonly SentFile[]): object {
  return files.length === 0 ? {} : { files: files.map((file) => ({ ...file, status: "uploaded" })) };
}

const NO_FILES: readonly SentFile[] = [];
