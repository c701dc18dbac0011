/** Memory: facts, summaries and their history. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import { isRecord } from "@/api/json";
import type { LoggedEvent } from "@/api/usage";
import type { Schemas } from "@/api/wire";

export type Category = Schemas["KnownFact"]["category"];
export const CATEGORIES: readonly Category[] = [
  "preference",
  "knowledge",
  "context",
  "behavior",
  "goal",
  "correction",
];

export type SummaryKey =
  | "user.workContext"
  | "user.personalContext"
  | "user.topOfMind"
  | "history.recentMonths"
  | "history.earlierContext"
  | "history.longTermBackground";

export type MemoryFact = Schemas["KnownFact"];

export type SummaryText = Schemas["SummaryText"];

export type MemoryDocument = Schemas["MemoryDocument"];

export type MemoryStatus = Omit<Schemas["MemoryStatus"], "config"> & {
  readonly config: Pick<Schemas["MemorySettings"], "enabled" | "switched_on" | "mode" | "debounce_seconds">;
};

export type PendingThread = Schemas["PendingThread"];

/** Return true if extraction will start without another run. */
export const isUnderWay = ({ is_unpaid }: PendingThread): boolean => !is_unpaid;

export type Source = Schemas["SourceOf"];

export type FactDetails = Schemas["FactDetails"];

export type MemoryChange = Schemas["ChangeMade"];

export type FactProvenance = Schemas["WhyKnown"];

export type HistoryPage = Schemas["HistoryPage"];

/** The memory injected into a run. */
export interface InjectedMemory {
  readonly injected: readonly string[];
  readonly considered: number;
  readonly dropped: number;
  readonly tokens: number;
  readonly is_new: boolean;
}

/** Editable fields of a fact. */
export type FactText = Pick<Schemas["KnownFact"], "content" | "category" | "confidence">;

/** Name of the custom agent that owns the memory, null for the shared memory. */
export type MemoryOf = string | null;

export interface MemoryApi {
  memory(of: MemoryOf): Promise<MemoryStatus>;
  /** Memory at a point in time, without facts erased since. */
  memoryAsOf(of: MemoryOf, moment: string): Promise<MemoryDocument>;
  switchMemory(of: MemoryOf, on: boolean): Promise<void>;
  addFact(of: MemoryOf, fact: FactText): Promise<MemoryDocument>;
  /** Rejected if the memory has changed since `revision`. */
  changeFact(of: MemoryOf, id: string, fact: FactText, revision: number): Promise<MemoryDocument>;
  /** Remove a fact; can be undone. */
  removeFact(of: MemoryOf, id: string): Promise<MemoryDocument>;
  eraseFact(of: MemoryOf, id: string): Promise<MemoryDocument>;
  eraseLearnedIn(of: MemoryOf, threadId: string): Promise<MemoryDocument>;
  eraseMemory(of: MemoryOf): Promise<MemoryDocument>;
  writeSummary(of: MemoryOf, key: SummaryKey, text: string, revision: number): Promise<MemoryDocument>;
  factProvenance(of: MemoryOf, id: string): Promise<FactProvenance>;
  searchMemory(of: MemoryOf, text: string, category: Category | null): Promise<readonly FactDetails[]>;
  memoryHistory(of: MemoryOf, limit: number, before: number | null): Promise<HistoryPage>;
  undoMemory(of: MemoryOf, which: { change_id: string } | { group: string }): Promise<MemoryDocument>;
  /** Return the text of a `memory.json`. */
  exportMemory(of: MemoryOf): Promise<string>;
  importMemory(of: MemoryOf, document: unknown): Promise<MemoryDocument>;
  /** Null if no memory was injected. */
  injectedMemory(threadId: string, runId: string): Promise<InjectedMemory | null>;
}

const FOUND = "50";
// The event is logged before the first model call.
const FIRST_EVENTS = "20";

export function memoryApi(fetch: Fetch): MemoryApi {
  const at = (of: MemoryOf, path = "", query: Readonly<Record<string, string>> = {}) => {
    const asked = new URLSearchParams({ ...query, ...(of === null ? {} : { agent: of }) }).toString();
    return `/api/memory${path}${asked === "" ? "" : `?${asked}`}`;
  };
  const fact = (id: string) => `/facts/${encodeURIComponent(id)}`;
  const erase = { method: "DELETE" };
  return {
    memory: (of) => requestJson(fetch, at(of, "/status")),
    memoryAsOf: (of, moment) => requestJson(fetch, at(of, "", { as_of: moment })),
    async switchMemory(of, on) {
      await request(fetch, at(of, "/config"), jsonBody({ switched_on: on }, "PUT"));
    },
    addFact: (of, text) => requestJson(fetch, at(of, "/facts"), jsonBody(text)),
    changeFact: (of, id, text, revision) =>
      requestJson(fetch, at(of, fact(id), { revision: `${revision}` }), jsonBody(text, "PATCH")),
    removeFact: (of, id) => requestJson(fetch, at(of, fact(id), { keep_history: "true" }), erase),
    eraseFact: (of, id) => requestJson(fetch, at(of, fact(id)), erase),
    eraseLearnedIn: (of, id) => requestJson(fetch, at(of, `/threads/${encodeURIComponent(id)}`), erase),
    eraseMemory: (of) => requestJson(fetch, at(of), erase),
    writeSummary: (of, key, summary, revision) =>
      requestJson(
        fetch,
        at(of, `/summaries/${key}`, { revision: `${revision}` }),
        jsonBody({ summary }, "PUT"),
      ),
    factProvenance: (of, id) => requestJson(fetch, at(of, `${fact(id)}/why`)),
    async searchMemory(of, q, category) {
      const query = { q, limit: FOUND, ...(category === null ? {} : { category }) };
      return (await requestJson<{ facts: FactDetails[] }>(fetch, at(of, "/search", query))).facts;
    },
    memoryHistory: (of, limit, before) => {
      const query = { limit: `${limit}`, ...(before === null ? {} : { before: `${before}` }) };
      return requestJson(fetch, at(of, "/history", query));
    },
    undoMemory: (of, which) => requestJson(fetch, at(of, "/undo"), jsonBody(which)),
    async exportMemory(of) {
      return (await request(fetch, at(of, "/export"))).text();
    },
    importMemory: (of, document) => requestJson(fetch, at(of, "/import"), jsonBody(document)),
    async injectedMemory(threadId, runId) {
      const run = `/api/threads/${encodeURIComponent(threadId)}/runs/${encodeURIComponent(runId)}`;
      const query = new URLSearchParams({ event_types: "custom", limit: FIRST_EVENTS });
      const { data: events } = await requestJson<{ data: LoggedEvent[] }>(fetch, `${run}/events?${query}`);
      return events.map(({ data }) => data).find(isInjectedMemory) ?? null;
    },
  };
}

function isInjectedMemory(data: unknown): data is InjectedMemory {
  return isRecord(data) && data.type === "memory" && Array.isArray(data.injected);
}
