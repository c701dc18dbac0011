/** How the page asks for what is not part of a run. */

import { Unreachable } from "@/api/http";

const TRIES = 3;

/** A server that is away may come back; one that has said no has said no. */
export function retryWhenAway(failures: number, error: Error): boolean {
  return error instanceof Unreachable && failures < TRIES;
}
