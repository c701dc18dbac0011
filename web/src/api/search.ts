/** Full-text search over all threads. */

import { type Fetch, requestJson } from "@/api/http";

export interface SearchHit {
  readonly thread_id: string;
  readonly title: string | null;
  readonly message_id: string | null;
  readonly snippet: string;
  /** Start and end of each match in `snippet`, in code points. */
  readonly highlights: readonly (readonly [number, number])[];
}

export interface SearchApi {
  /** Search messages, best match first. */
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
