/** Mark before the title of the tab. */

import { isActive } from "@/run/reduce";
import { usePage } from "@/state/context";
import { useThreads } from "@/state/threadList";

/** Return "(1) " if threads wait for the user, "● " while the open thread is answered. */
export function useTitleMark(): string {
  const threads = useThreads();
  const running = usePage(({ conversation }) => isActive(conversation.run));
  const waiting =
    threads.phase === "ready" ? threads.value.filter(({ waitsFor }) => waitsFor !== null).length : 0;
  if (waiting > 0) return `(${waiting}) `;
  return running ? "● " : "";
}
