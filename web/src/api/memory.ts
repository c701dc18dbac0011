/** What is known about the user: facts, summaries, and every change of them. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { LoggedEvent } from "@/api/usage";
import { isRecord } from "@/run/json";

export type Category = "preference" | "knowledge" | "context" | "behavior" | "goal" | "correction";
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

export interface KnownFact {
  readonly id: string;
  readonly content: string;
  readonly category: Category;
  readonly confidence: number;
  readonly createdAt: string;
  /** A thread, `manual` or `deleted thread`. */
  readonly source: string;
  /** What a correction corrects. */
  readonly sourceError?: string | null;
}

export interface SummaryText {
  readonly summary: string;
  readonly updatedAt: string;
}

export interface MemoryDocument {
  readonly lastUpdated: string;
  readonly user: Readonly<Record<string, SummaryText>>;
  readonly history: Readonly<Record<string, SummaryText>>;
  readonly facts: readonly KnownFact[];
  readonly revision: number;
}

export interface MemoryStatus {
  readonly config: {
    /** Whether this server remembers anything. */
    readonly enabled: boolean;
    /** Whether the user wants it to. */
    readonly switched_on: boolean;
    readonly mode: string;
    readonly debounce_seconds: number;
  };
  readonly data: MemoryDocument;
  /** Threads that are yet to be learned from, the next first. */
  readonly pending: readonly PendingThread[];
}

export interface PendingThread {
  readonly thread_id: string;
  readonly due_at: string;
  readonly is_being_read: boolean;
  /** It waits for the thread's next run: the budget of the last one does not pay for it. */
  readonly is_unpaid: boolean;
}

/** Whether something will become of it by itself. */
export const isUnderWay = ({ is_unpaid }: PendingThread): boolean => !is_unpaid;

export interface Source {
  /** null: in a thread that is deleted. */
  readonly thread_id: string | null;
  readonly message_id: string | null;
  readonly quote: string | null;
}

export interface FactDetails extends KnownFact {
  /** null: somebody wrote it down. */
  readonly learnedIn: Source | null;
}

export interface MemoryChange {
  readonly change_id: string;
  readonly seq: number;
  readonly at: string;
  readonly actor: "model" | "user" | "agent" | "import";
  readonly kind: "fact_added" | "fact_changed" | "fact_removed" | "summary_set" | "undone";
  /** A fact's id, or the key of a summary. */
  readonly target: string;
  readonly before: FactDetails | SummaryText | null;
  readonly after: FactDetails | SummaryText | null;
  readonly source: Source | null;
  /** Names what was done at once. */
  readonly group: string;
  readonly undoes: string | null;
}

export interface WhyKnown {
  readonly fact: FactDetails;
  readonly changes: readonly MemoryChange[];
  readonly superseded: readonly FactDetails[];
}

export interface HistoryPage {
  readonly changes: readonly MemoryChange[];
  readonly next_before: number | null;
}

/** What a run was told; a thread that was told earlier is told the same again. */
export interface Receipt {
  readonly injected: readonly string[];
  readonly considered: number;
  readonly dropped: number;
  readonly tokens: number;
  readonly is_new: boolean;
}

/** What a fact is to be. */
export interface FactText {
  readonly content: string;
  readonly category: Category;
  readonly confidence: number;
}

/** The custom agent whose memory is meant; null is everybody else's. */
export type MemoryOf = string | null;

export interface MemoryApi {
  memory(of: MemoryOf): Promise<MemoryStatus>;
  /** As it was, without what has been erased since. */
  memoryAsOf(of: MemoryOf, moment: string): Promise<MemoryDocument>;
  switchMemory(of: MemoryOf, on: boolean): Promise<void>;
  addFact(of: MemoryOf, fact: FactText): Promise<MemoryDocument>;
  /** Refused where the memory has changed since `revision`. */
  changeFact(of: MemoryOf, id: string, fact: FactText, revision: number): Promise<MemoryDocument>;
  /** Takes a fact away, which can be undone. */
  takeFact(of: MemoryOf, id: string): Promise<MemoryDocument>;
  eraseFact(of: MemoryOf, id: string): Promise<MemoryDocument>;
  eraseLearnedIn(of: MemoryOf, threadId: string): Promise<MemoryDocument>;
  eraseMemory(of: MemoryOf): Promise<MemoryDocument>;
  writeSummary(of: MemoryOf, key: SummaryKey, text: string, revision: number): Promise<MemoryDocument>;
  whyKnown(of: MemoryOf, id: string): Promise<WhyKnown>;
  searchMemory(of: MemoryOf, text: string, category: Category | null): Promise<readonly FactDetails[]>;
  memoryHistory(of: MemoryOf, limit: number, before: number | null): Promise<HistoryPage>;
  undoMemory(of: MemoryOf, which: { change_id: string } | { group: string }): Promise<MemoryDocument>;
  /** The text of a `memory.json`. */
  exportMemory(of: MemoryOf): Promise<string>;
  importMemory(of: MemoryOf, document: unknown): Promise<MemoryDocument>;
  /** null: nothing was told. */
  memoryReceipt(threadId: string, runId: string): Promise<Receipt | null>;
}

const FOUND = "50";
// It is written before the model is first asked.
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
    takeFact: (of, id) => requestJson(fetch, at(of, fact(id), { keep_history: "true" }), erase),
    eraseFact: (of, id) => requestJson(fetch, at(of, fact(id)), erase),
    eraseLearnedIn: (of, id) => requestJson(fetch, at(of, `/threads/${encodeURIComponent(id)}`), erase),
    eraseMemory: (of) => requestJson(fetch, at(of), erase),
    writeSummary: (of, key, summary, revision) =>
      requestJson(
        fetch,
        at(of, `/summaries/${key}`, { revision: `${revision}` }),
        jsonBody({ summary }, "PUT"),
      ),
    whyKnown: (of, id) => requestJson(fetch, at(of, `${fact(id)}/why`)),
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
    async memoryReceipt(threadId, runId) {
      const run = `/api/threads/${encodeURIComponent(threadId)}/runs/${encodeURIComponent(runId)}`;
      const query = new URLSearchParams({ event_types: "custom", limit: FIRST_EVENTS });
      const { data } = await requestJson<{ data: LoggedEvent[] }>(fetch, `${run}/events?${query}`);
      return data.map(({ data: said }) => said).find(isReceipt) ?? null;
    },
  };
}

function isReceipt(said: unknown): said is Receipt {
  return isRecord(said) && said.type === "memory" && Array.isArray(said.injected);
}
