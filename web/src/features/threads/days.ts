/** Threads by day. */

import type { Thread } from "@/app/page";

export type Day = "today" | "yesterday" | "earlier";

export interface DayGroup {
  readonly day: Day;
  readonly threads: readonly Thread[];
}

/** Groups in the reader's own days; the order inside each is kept, empty ones are left out. */
export function groupByDay(threads: readonly Thread[], now: Date): readonly DayGroup[] {
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate());
  const yesterday = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1);
  const dayOf = ({ updatedAt }: Thread): Day => {
    const at = new Date(updatedAt);
    if (at >= today) return "today";
    return at >= yesterday ? "yesterday" : "earlier";
  };
  const days: readonly Day[] = ["today", "yesterday", "earlier"];
  return days
    .map((day) => ({ day, threads: threads.filter((thread) => dayOf(thread) === day) }))
    .filter((group) => group.threads.length > 0);
}
