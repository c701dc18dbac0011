/** Uploads, suggestions and prompt rewriting: features a server may lack. */

import { ApiError, type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { SentFile } from "@/api/sentFiles";
import type { Schemas } from "@/api/wire";

export type UploadLimits = Schemas["UploadLimits"];

type UploadAnswer = Schemas["UploadAnswer"];

export interface FilesGateway {
  /** Null if the server does not report limits. */
  uploadLimits(): Promise<UploadLimits | null>;
  upload(
    threadId: string,
    file: File,
    onProgress: (part: number) => void,
    signal: AbortSignal,
  ): Promise<SentFile>;
  deleteUpload(threadId: string, filename: string): Promise<void>;
  uploads(threadId: string): Promise<readonly SentFile[]>;
  /** Return suggested follow-ups, none if the server has no suggestions. */
  suggestions(
    threadId: string,
    messages: readonly ChatMessage[],
    model: string | null,
  ): Promise<readonly string[]>;
  /** Return the rewritten prompt, null if the server does not rewrite prompts. */
  polish(text: string, locale: string, threadId: string | null): Promise<string | null>;
}

export type ChatMessage = Schemas["Said"] & { readonly role: "user" | "assistant" };

/** Sends a form and reports upload progress; tests pass a fake. */
export type SendForm = (
  path: string,
  form: FormData,
  onProgress: (part: number) => void,
  signal: AbortSignal,
) => Promise<{ readonly status: number; readonly body: unknown }>;

export function createFilesGateway(fetch: Fetch, sendForm: SendForm): FilesGateway {
  return {
    async uploadLimits() {
      return orNull(requestJson<UploadLimits>(fetch, "/api/uploads/limits"));
    },

    async upload(threadId, file, onProgress, signal) {
      // Files may be attached before the first message creates the thread.
      const thread = { thread_id: threadId, if_exists: "do_nothing" };
      await request(fetch, "/api/threads", { ...jsonBody(thread), signal });
      const form = new FormData();
      form.append("files", file, file.name);
      const { status, body } = await sendForm(uploadsOf(threadId), form, onProgress, signal);
      const answer = (body ?? {}) as Partial<UploadAnswer> & { error?: unknown; detail?: unknown };
      const kept = answer.files?.[0];
      if (status < 400 && kept !== undefined)
        return { filename: kept.filename, size: kept.size, path: kept.virtual_path };
      const skipped = answer.skipped_files?.[0];
      const reason = typeof skipped === "object" ? skipped.reason : answer.detail;
      throw new ApiError(
        String(answer.error ?? "HttpError"),
        status,
        typeof reason === "string" ? reason : "",
      );
    },

    async deleteUpload(threadId, filename) {
      await request(fetch, `${uploadsOf(threadId)}/${encodeURIComponent(filename)}`, { method: "DELETE" });
    },

    async uploads(threadId) {
      const found = await orNull(requestJson<UploadAnswer>(fetch, `${uploadsOf(threadId)}/list`));
      return (found?.files ?? []).map(({ filename, size, virtual_path: path }) => ({ filename, size, path }));
    },

    async suggestions(threadId, messages, model) {
      const body = jsonBody({ messages, n: 3, ...(model !== null && { model_name: model }) });
      const path = `/api/threads/${encodeURIComponent(threadId)}/suggestions`;
      const found = await orNull(requestJson<{ suggestions: string[] }>(fetch, path, body));
      return found?.suggestions ?? [];
    },

    async polish(text, locale, threadId) {
      const body = jsonBody({ text, locale, ...(threadId !== null && { thread_id: threadId }) });
      const found = await orNull(requestJson<{ rewritten_text: string }>(fetch, "/api/input-polish", body));
      return found?.rewritten_text ?? null;
    },
  };
}

/** Return null for 404 and 405: the server lacks this feature. */
async function orNull<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 405)) return null;
    throw error;
  }
}

function uploadsOf(threadId: string): string {
  return `/api/threads/${encodeURIComponent(threadId)}/uploads`;
}

/** Uses XMLHttpRequest because `fetch` has no upload progress. */
export const sendFormInBrowser: SendForm = (path, form, onProgress, signal) =>
  new Promise((resolve, reject) => {
    const asked = new XMLHttpRequest();
    asked.open("POST", path);
    asked.setRequestHeader("X-CSRF-Protection", "1");
    asked.responseType = "json";
    asked.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
    asked.onload = () => resolve({ status: asked.status, body: asked.response });
    asked.onerror = () => reject(new TypeError("the server did not respond"));
    asked.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => asked.abort());
    asked.send(form);
  });
