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

/** Preview of an Office file or an archive. */
export type OfficePreview =
  | Schemas["SlidesPreview"]
  | Schemas["DocumentPreview"]
  | Schemas["WorkbookPreview"]
  | Schemas["ArchivePreview"];

/** Files that a run has changed. */
export type RunChanges = Schemas["RunChanges"];

export type SavedFile = Omit<Schemas["Edited"], "path">;

export interface FilesApi {
  folder(threadId: string, path: string): Promise<Folder>;
  /** Load the bytes of a file. */
  bytes(threadId: string, path: string): Promise<ArrayBuffer>;
  /** Load the preview of an Office file or an archive. */
  officePreview(threadId: string, path: string): Promise<OfficePreview>;
  /** Load the files that a run has changed, with their diffs if wanted. */
  runChanges(threadId: string, runId: string, withDiffs: boolean): Promise<RunChanges>;
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
    officePreview: (threadId, path) =>
      requestJson(fetch, artifactUrl(threadId, path).replace("/artifacts/", "/file-previews/")),
    runChanges: (threadId, runId, withDiffs) =>
      requestJson(
        fetch,
        `/api/threads/${encodeURIComponent(threadId)}/runs/${encodeURIComponent(runId)}/workspace-changes?${new URLSearchParams(
          { include_files: String(withDiffs), include_diff: String(withDiffs) },
        )}`,
      ),
    saveText: (threadId, path, text, expected) =>
      requestJson(
        fetch,
        artifactUrl(threadId, path),
        jsonBody({ content: text, expected_sha256: expected }, "PUT"),
      ),
  };
}
