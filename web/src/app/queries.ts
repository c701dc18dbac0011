/** Retry rule of queries. */

import { NetworkError } from "@/api/http";

const TRIES = 3;

/** Retry network errors, not error responses. */
export function retryWhenAway(failures: number, error: Error): boolean {
  return error instanceof NetworkError && failures < TRIES;
}
