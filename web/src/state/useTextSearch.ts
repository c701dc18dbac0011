/** Debounced message search. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { SearchHit } from "@/api/search";
import { useFeature, useServer } from "@/state/server";
import { useDebounced } from "@/ui/dom/useDebounced";

const SHORTEST = 2;
const MOST = 20;

export interface SearchResult {
  readonly hits: readonly SearchHit[];
  readonly failed: boolean;
}

export function useTextSearch(wanted: string): SearchResult {
  const server = useServer();
  const settled = useDebounced(wanted.trim());
  const offered = useFeature("search");
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

const NOTHING: SearchResult = { hits: [], failed: false };
