/** What was said in any thread, found by its words. */

import { type Fetch, requestJson } from "@/api/http";

export interface SearchHit {
  readonly thread_id: string;
  readonly title: string | null;
  readonly message_id: string | null;
  readonly snippet: string;
  /** Where in `snippet` the words are, from and to, counted in characters. */
  readonly highlights: readonly (readonly [number, number])[];
}

export interface SearchApi {
  /** Places where the words are, the best first. */
  search(text: string, limit: number): Promise<readonly SearchHit[]>;
}

export function searchApi(fetch: Fetch): SearchApi {
  return {
    async search(text, limit) {
      const query = new URLSearchParams({ q: text, limit: String(limit) });
      return (await requestJson<{ hits: SearchHit[] }>(fetch, `/api/search?${query}`)).hits;
    },
  };
}
