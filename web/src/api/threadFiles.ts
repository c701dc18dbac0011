/** A thread's files. */

import { artifactUrl } from "@/api/artifacts";
import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { Schemas } from "@/api/wire";

export type FolderEntry = Schemas["FileOrFolder"];

export type Folder = Schemas["FolderListing"];

/** A text with the hash that an edit must match. */
export interface TextFile {
  readonly text: string;
  readonly sha256: string;
}

export type SavedFile = Omit<Schemas["Edited"], "path">;

export interface FilesApi {
  folder(threadId: string, path: string): Promise<Folder>;
  /** Load the bytes of a file. */
  bytes(threadId: string, path: string): Promise<ArrayBuffer>;
  /** Replace a text if its hash is still `expected`; null creates a new file. */
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
