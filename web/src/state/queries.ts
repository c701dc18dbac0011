/** Retry rule and shared keys of queries. */

import { NetworkError } from "@/api/http";

const TRIES = 3;

/** Retry network errors, not error responses. */
export function retryWhenAway(failures: number, error: Error): boolean {
  return error instanceof NetworkError && failures < TRIES;
}

/** Query key of a memory; null is the shared one. */
export function memoryKey(agent: string | null): readonly string[] {
  return ["memory", agent ?? ""];
}
