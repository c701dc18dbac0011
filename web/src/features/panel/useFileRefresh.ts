/** Refetches files after each run. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { isActive } from "@/run/reduce";
import { usePage } from "@/state/context";

export function useFileRefresh(): void {
  const queries = useQueryClient();
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const threadId = usePage((page) => page.threadId);
  useEffect(() => {
    if (!active) void queries.invalidateQueries({ queryKey: ["thread", threadId] });
  }, [active, threadId, queries]);
}
