/** A thread's files. */

import { artifactUrl } from "@/api/artifacts";
import { type Fetch, jsonBody, request, requestJson } from "@/api/http";

export interface FolderEntry {
  readonly name: string;
  readonly path: string;
  readonly kind: "file" | "folder";
  readonly size: number;
  readonly modified_at: string;
}

export interface Folder {
  readonly path: string;
  readonly entries: readonly FolderEntry[];
  readonly is_truncated: boolean;
}

/** A text, and what the server must still have for an edit of it to be taken. */
export interface TextFile {
  readonly text: string;
  readonly sha256: string;
}

export interface SavedFile {
  readonly sha256: string;
  readonly size: number;
}

export interface FilesApi {
  folder(threadId: string, path: string): Promise<Folder>;
  /** The file's bytes. */
  bytes(threadId: string, path: string): Promise<ArrayBuffer>;
  /** Replaces a text unless it is no longer what `expected` says; null makes a file where there is none. */
  saveText(threadId: string, path: string, text: string, expected: string | null): Promise<SavedFile>;
}

export function filesApi(fetch: Fetch): FilesApi {
  return {
    folder: (threadId, path) =>
      requestJson(
        fetch,
        `/api/threads/${encodeURIComponent(threadId)}/files?${new URLSearchParams({ path })}`,
      ),
    async bytes(threadId, path) {
      return (await request(fetch, artifactUrl(threadId, path))).arrayBuffer();
    },
    saveText: (threadId, path, text, expected) =>
      requestJson(
        fetch,
        artifactUrl(threadId, path),
        jsonBody({ content: text, expected_sha256: expected }, "PUT"),
      ),
  };
}
