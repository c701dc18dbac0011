/** Refetches files after each run. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { isActive } from "@/run/reduce";
import { usePage } from "@/state/context";

export function useFileRefresh(): void {
  const queries = useQueryClient();
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const threadId = usePage((page) => page.threadId);
  const wasActive = useRef(active);
  useEffect(() => {
    const query = { queryKey: ["thread", threadId] };
    // A first request that is still open would be kept, with a response from before the end of the run.
    const canceled = wasActive.current && !active ? queries.cancelQueries(query) : Promise.resolve();
    wasActive.current = active;
    if (!active) void canceled.then(() => queries.invalidateQueries(query));
  }, [active, threadId, queries]);
}
