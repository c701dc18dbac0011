/** Asks the server where words were said, once the reader has stopped typing. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { SearchHit } from "@/api/search";
import { useOffers, useServer } from "@/app/server";

const PAUSE_MS = 200;
const SHORTEST = 2;
const MOST = 20;

interface Found {
  readonly hits: readonly SearchHit[];
  readonly failed: boolean;
}

export function useTextSearch(wanted: string): Found {
  const server = useServer();
  const settled = useSettled(wanted.trim());
  const offered = useOffers("search");
  const enabled = offered && settled.length >= SHORTEST && wanted.trim() !== "";
  const found = useQuery({
    queryKey: ["search", settled],
    queryFn: () => server.search(settled, MOST),
    enabled,
    placeholderData: keepPreviousData,
  });
  if (!enabled) return NOTHING;
  return { hits: found.data ?? NOTHING.hits, failed: found.isError };
}

const NOTHING: Found = { hits: [], failed: false };

/** The value, when it has not changed for a moment. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
