/** History of sent messages, navigated with the arrow keys. */

import { useRef } from "react";
import { isOwn } from "@/run/message";
import { usePage } from "@/state/context";

/** Return the previous or next text, null if there is none. */
export function useInputHistory(): (direction: "before" | "after", text: string) => string | null {
  const order = usePage(({ conversation }) => conversation.order);
  const settled = usePage(({ conversation }) => conversation.settled);
  const place = useRef<{
    readonly steps: number;
    readonly shown: string;
    readonly draft: string;
  } | null>(null);

  return (direction, text) => {
    // An edited entry starts a new draft.
    const known = place.current?.shown === text ? place.current : { steps: 0, shown: text, draft: text };
    if (known.steps === 0 && (direction === "after" || text !== "")) return null;
    const own = order.flatMap((id) => (isOwn(settled.get(id)) ? (settled.get(id)?.text ?? []) : []));
    const steps = known.steps + (direction === "before" ? 1 : -1);
    const found = steps === 0 ? known.draft : own.at(-steps);
    if (found === undefined) return null;
    place.current = { ...known, steps, shown: found };
    return found;
  };
}
