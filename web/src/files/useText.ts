/** Text of a file. */

import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import type { TextFile } from "@/api/threadFiles";
import { useServer } from "@/state/server";

// Larger files are too slow for the editor.
const LARGEST = 2 * 1024 * 1024;

/** Return the text and its hash, null for binary or large files. */
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
    return null; // not UTF-8
  }
}

/** Empty without a secure context, which SubtleCrypto needs. */
async function sha256(bytes: ArrayBuffer): Promise<string> {
  if (crypto.subtle === undefined) return "";
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
