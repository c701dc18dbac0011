/** Marks threads that finish while nobody looks at them. */

import type { Watched } from "@/state/preferences";
import type { Thread } from "@/state/threadList";

export type Marks = Readonly<Record<string, Watched>>;

/** Return the marks after a look at the list; the same object if nothing changed. `seen` is the thread in view. */
export function watchThreads(marks: Marks, threads: readonly Thread[], seen: string | null): Marks {
  const next = new Map(Object.entries(marks));
  for (const { id, status } of threads) {
    if (status === "busy") next.set(id, "busy");
    else if (id === seen) next.delete(id);
    else if (next.get(id) === "busy") next.set(id, "unread");
  }
  const changed =
    next.size !== Object.keys(marks).length || [...next].some(([id, mark]) => marks[id] !== mark);
  // Bounds the size of the stored preferences.
  return changed ? Object.fromEntries([...next].slice(-200)) : marks;
}

export type Change = "taskDone" | "taskFailed" | "needsAnswer" | "needsApproval";

/** Return what happened to a thread between two looks at the list, if it concerns the user. */
export function changeOf(before: Thread | undefined, after: Thread): Change | null {
  if (before === undefined || after.status === "busy") return null;
  if (after.waitsFor !== null)
    return before.waitsFor === after.waitsFor
      ? null
      : after.waitsFor === "answer"
        ? "needsAnswer"
        : "needsApproval";
  if (before.status !== "busy") return null;
  return after.status === "error" ? "taskFailed" : after.status === "idle" ? "taskDone" : null;
}
