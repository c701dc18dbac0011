/** Marks messages superseded by a run that branches. */

import { PENDING } from "@/run/branches";
import type { Conversation } from "@/run/conversation";

type Settled = Conversation["settled"];

/** Mark everything except `kept` as about to be superseded. */
export function supersedeAllBut(settled: Settled, kept: readonly string[]): Settled {
  const keeps = new Set(kept);
  const all = new Map(settled);
  for (const [id, message] of settled) {
    if (keeps.has(id)) all.set(id, { ...message, supersededBy: null });
    else if (message.supersededBy === null) all.set(id, { ...message, supersededBy: PENDING });
  }
  return all;
}

/** Set the superseding run of pending messages and of `ids`; null restores them. */
export function supersede(runId: string | null, settled: Settled, ids: readonly string[] = []): Settled {
  const gone = new Set(ids);
  const all = new Map(settled);
  for (const [id, message] of settled) {
    const leaves = message.supersededBy === PENDING || (message.supersededBy === null && gone.has(id));
    if (leaves) all.set(id, { ...message, supersededBy: runId });
  }
  return all;
}
