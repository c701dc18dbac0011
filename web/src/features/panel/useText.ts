/** A file of a thread as text. */

import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import type { TextFile } from "@/api/threadFiles";
import { useServer } from "@/app/server";

// More than this nobody reads in a panel, and an editor would not bear it.
const LARGEST = 2 * 1024 * 1024;

/** The text and its hash; null for what is no text, or too much of it. */
export function useText(threadId: string, path: string): UseQueryResult<TextFile | null> {
  const server = useServer();
  return useQuery({
    queryKey: textKey(threadId, path),
    queryFn: async () => textFile(await server.bytes(threadId, path)),
  });
}

export function textKey(threadId: string, path: string): readonly string[] {
  return ["thread", threadId, "text", path];
}

export async function textFile(bytes: ArrayBuffer): Promise<TextFile | null> {
  if (bytes.byteLength > LARGEST) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return text.includes("\0") ? null : { text, sha256: await sha256(bytes) };
  } catch {
    return null; // it is not UTF-8
  }
}

/** Empty where the browser does not compute it: on pages that are not served securely. */
async function sha256(bytes: ArrayBuffer): Promise<string> {
  if (crypto.subtle === undefined) return "";
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
