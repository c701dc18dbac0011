/** Refetches files after each run. */

import { type Query, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { isActive } from "@/run/reduce";
import { usePage } from "@/state/context";

export function useFileRefresh(): void {
  const queries = useQueryClient();
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const threadId = usePage((page) => page.threadId);
  const wasActive = useRef(active);
  useEffect(() => {
    const hasEnded = wasActive.current && !active;
    wasActive.current = active;
    if (active) return;
    // A first request that is open was sent a moment ago, unless a run has ended since.
    const predicate = ({ state }: Query) => hasEnded || state.data !== undefined;
    void queries.invalidateQueries({ queryKey: ["thread", threadId], predicate });
  }, [active, threadId, queries]);
}
