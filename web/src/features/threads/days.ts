/** Groups threads by day. */

import type { Thread } from "@/state/threadList";

export type Day = "today" | "yesterday" | "earlier";

export interface Group {
  readonly name: Day | "pinned";
  readonly threads: readonly Thread[];
}

/** Group by local day, pinned first; order within groups is kept and empty groups are dropped. */
export function groupThreads(threads: readonly Thread[], now: Date): readonly Group[] {
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate());
  const yesterday = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1);
  const groupOf = ({ updatedAt, pinned }: Thread): Group["name"] => {
    if (pinned) return "pinned";
    const at = new Date(updatedAt);
    if (at >= today) return "today";
    return at >= yesterday ? "yesterday" : "earlier";
  };
  const groups = new Map<Group["name"], Thread[]>(
    (["pinned", "today", "yesterday", "earlier"] as const).map((name) => [name, []]),
  );
  for (const thread of threads) groups.get(groupOf(thread))?.push(thread);
  return [...groups]
    .map(([name, grouped]) => ({ name, threads: grouped }))
    .filter((group) => group.threads.length > 0);
}
