/** Goes back through what was written before, and forth to what was being written. */

import { useRef } from "react";
import { usePage } from "@/app/context";
import { isOwn } from "@/run/message";

/** The text before or after the one that stands there, or null where there is none. */
export function useInputHistory(): (direction: "before" | "after", text: string) => string | null {
  const order = usePage(({ conversation }) => conversation.order);
  const settled = usePage(({ conversation }) => conversation.settled);
  const place = useRef<{ readonly steps: number; readonly shown: string; readonly written: string } | null>(
    null,
  );

  return (direction, text) => {
    // Whoever changed what was found writes something new.
    const known = place.current?.shown === text ? place.current : { steps: 0, shown: text, written: text };
    if (known.steps === 0 && (direction === "after" || text !== "")) return null;
    const own = order.flatMap((id) => (isOwn(settled.get(id)) ? (settled.get(id)?.text ?? []) : []));
    const steps = known.steps + (direction === "before" ? 1 : -1);
    const found = steps === 0 ? known.written : own.at(-steps);
    if (found === undefined) return null;
    place.current = { ...known, steps, shown: found };
    return found;
  };
}
