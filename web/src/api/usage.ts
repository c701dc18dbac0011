/** Run events and token usage. */

import { type Fetch, requestJson } from "@/api/http";
import { RUN_QUERY, type Schemas, type WireRun } from "@/api/wire";

/** Token usage. `cost` is null unless all prices are known in one currency. */
export type Tokens = Pick<
  Schemas["Tokens"],
  "calls" | "input_tokens" | "cached_tokens" | "output_tokens" | "total_tokens" | "cost"
>;

export type PrefixCacheUsage = Schemas["PrefixCache"];
export type PrefixCacheBreak = Schemas["PrefixCacheBreak"];
export type RunUsage = Tokens & Pick<Schemas["RunTokens"], "prefix_cache">;

export type ThreadUsage = {
  readonly totals: Tokens;
  /** Context usage at the last model call. */
  readonly context_usage: Omit<Schemas["ContextUsage"], "model"> | null;
};

export interface LoggedEvent {
  readonly seq: number;
  readonly event: string;
  readonly data: unknown;
  readonly created_at: string;
}

interface EventsPage {
  readonly data: readonly LoggedEvent[];
  readonly has_more: boolean;
  readonly next_after_seq: number;
}

export type ConsoleUsage = Schemas["ConsoleUsage"];

/** A web page that an agent has read. */
export type WebPage = Pick<Schemas["WebPage"], "asked_url" | "url" | "problem" | "is_kept">;

export interface UsageApi {
  /** Load the usage of the latest days by the calendar of a time zone. */
  usage(days: number, timezone: string): Promise<ConsoleUsage>;
  /** List the web pages read in a thread. */
  webPages(threadId: string): Promise<readonly WebPage[]>;
  runs(threadId: string): Promise<readonly WireRun[]>;
  /** Load the events of a run, oldest first, up to a page limit. */
  runEvents(threadId: string, runId: string): Promise<readonly LoggedEvent[]>;
  threadUsage(threadId: string): Promise<ThreadUsage>;
  runUsage(threadId: string, runId: string): Promise<RunUsage>;
}

const RUNS = 50;
const EVENT_PAGES = 4;
const STEPS = "changes,error,end";

export function usageApi(fetch: Fetch): UsageApi {
  const thread = (threadId: string) => `/api/threads/${encodeURIComponent(threadId)}`;

  return {
    usage: (days, timezone) =>
      requestJson(fetch, `/api/console/usage?${new URLSearchParams({ days: String(days), timezone })}`),
    async webPages(threadId) {
      const path = `${thread(threadId)}/web-pages?limit=1000`;
      return (await requestJson<{ pages: readonly WebPage[] }>(fetch, path)).pages;
    },
    runs: (threadId) => requestJson(fetch, `${thread(threadId)}/runs?limit=${RUNS}&${RUN_QUERY}`),
    async runEvents(threadId, runId) {
      const events: LoggedEvent[] = [];
      let after = 0;
      for (let page = 0; page < EVENT_PAGES; page++) {
        const query = new URLSearchParams({ event_types: STEPS, after_seq: String(after), limit: "1000" });
        const path = `${thread(threadId)}/runs/${runId}/events?${query}`;
        const found = await requestJson<EventsPage>(fetch, path);
        events.push(...found.data);
        if (!found.has_more) break;
        after = found.next_after_seq;
      }
      return events;
    },
    threadUsage: (threadId) => requestJson(fetch, `${thread(threadId)}/token-usage`),
    runUsage: (threadId, runId) => requestJson(fetch, `${thread(threadId)}/runs/${runId}/token-usage`),
  };
}
