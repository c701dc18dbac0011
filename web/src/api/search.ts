/** Full-text search over all threads. */

import { type Fetch, requestJson } from "@/api/http";
import type { Schemas } from "@/api/wire";

export type SearchHit = Pick<Schemas["Hit"], "thread_id" | "title" | "message_id" | "snippet" | "highlights">;

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
