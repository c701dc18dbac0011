/** What a run that begins before the end of the thread leaves behind. */

import { LEAVING } from "@/run/branches";
import type { Conversation } from "@/run/conversation";

type Settled = Conversation["settled"];

/** Only `kept` stays; the rest of the way things went is about to be left behind. */
export function keepOnly(settled: Settled, kept: readonly string[]): Settled {
  const keeps = new Set(kept);
  const all = new Map(settled);
  for (const [id, message] of settled) {
    if (keeps.has(id)) all.set(id, { ...message, leftBehindBy: null });
    else if (message.leftBehindBy === null) all.set(id, { ...message, leftBehindBy: LEAVING });
  }
  return all;
}

/** What was about to be left behind, and `ids`, is left behind by a run, or by none after all. */
export function leftBy(runId: string | null, settled: Settled, ids: readonly string[] = []): Settled {
  const gone = new Set(ids);
  const all = new Map(settled);
  for (const [id, message] of settled) {
    const leaves = message.leftBehindBy === LEAVING || (message.leftBehindBy === null && gone.has(id));
    if (leaves) all.set(id, { ...message, leftBehindBy: runId });
  }
  return all;
}
