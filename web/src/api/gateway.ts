/** The calls this page makes. */

import { answeredBy, ONLY_LEAD, whoAnswered } from "@/api/assistants";
import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type {
  Decision,
  ModelsAnswer,
  SandboxInfo,
  Starter,
  ThreadValues,
  WireRun,
  WireThread,
} from "@/api/wire";

const GRAPH = "/api/langgraph";
const STREAM_MODES = ["messages-tuple", "changes", "custom"] as const;

/** Who answers, and how. */
export interface RunSettings {
  readonly model: string | null;
  readonly thinking: boolean | null;
  /** Whether the agent keeps a to-do list. */
  readonly planMode: boolean;
}

export interface NewRun extends RunSettings {
  readonly messageId: string;
  readonly text: string;
}

/** A run that goes on where one has paused. */
export interface ResumedRun extends RunSettings {
  readonly decisions: readonly Decision[];
}

export interface Gateway {
  sandbox(): Promise<SandboxInfo>;
  models(): Promise<ModelsAnswer>;
  starters(model: string | null): Promise<readonly Starter[]>;
  /** Threads, newest activity first; only those whose metadata has what `metadata` says. */
  threads(limit: number, offset?: number, metadata?: object): Promise<readonly WireThread[]>;
  /** Adds to a thread's metadata. */
  updateThread(threadId: string, metadata: object): Promise<void>;
  said(threadId: string): Promise<ThreadValues>;
  deleteThread(threadId: string): Promise<void>;
  newestRun(threadId: string): Promise<WireRun | null>;
  startRun(threadId: string, run: NewRun, signal: AbortSignal): Promise<Response>;
  resumeRun(threadId: string, run: ResumedRun, signal: AbortSignal): Promise<Response>;
  joinRun(threadId: string, runId: string, after: number | null, signal: AbortSignal): Promise<Response>;
  cancelRun(threadId: string, runId: string): Promise<void>;
}

export function createGateway(fetch: Fetch, assistants = ONLY_LEAD): Gateway {
  const streamRun = (threadId: string, body: object, signal: AbortSignal) => {
    const asked = { ...body, ...answeredBy(assistants.current(), body) };
    return request(fetch, `${thread(threadId)}/runs/stream`, { ...jsonBody(asked), signal });
  };

  return {
    sandbox: () => requestJson(fetch, "/api/sandbox"),

    models: () => requestJson(fetch, "/api/models"),

    async starters(model) {
      const query = model === null ? "" : `?model=${encodeURIComponent(model)}`;
      const answer = await requestJson<{ starters: Starter[] }>(fetch, `/api/starters${query}`);
      return answer.starters;
    },

    threads: (limit, offset = 0, metadata = {}) =>
      requestJson(fetch, `${GRAPH}/threads/search`, jsonBody({ limit, offset, metadata })),

    async updateThread(threadId, metadata) {
      await request(fetch, thread(threadId), jsonBody({ metadata }, "PATCH"));
    },

    // Not the state: that holds only what the agent still has in view.
    said: (threadId) => requestJson<ThreadValues>(fetch, `${thread(threadId)}/messages`),

    async deleteThread(threadId) {
      // Kept alive, so that a deletion still leaves when the page does.
      await request(fetch, thread(threadId), { method: "DELETE", keepalive: true });
    },

    async newestRun(threadId) {
      const runs = await requestJson<WireRun[]>(fetch, `${thread(threadId)}/runs?limit=1`);
      const newest = runs[0] ?? null;
      if (newest !== null) assistants.heard(threadId, whoAnswered(newest));
      return newest;
    },

    startRun(threadId, { messageId, text, ...settings }, signal) {
      const input = { messages: [{ type: "human", id: messageId, content: text }] };
      return streamRun(threadId, { input, if_not_exists: "create", ...runBody(settings) }, signal);
    },

    resumeRun(threadId, { decisions, ...settings }, signal) {
      const command = { resume: { decisions } };
      return streamRun(threadId, { command, if_not_exists: "reject", ...runBody(settings) }, signal);
    },

    joinRun(threadId, runId, after, signal) {
      const modes = STREAM_MODES.map((mode) => `stream_mode=${mode}`).join("&");
      const headers: HeadersInit = after === null ? {} : { "Last-Event-ID": String(after) };
      return request(fetch, `${thread(threadId)}/runs/${runId}/stream?${modes}`, { headers, signal });
    },

    async cancelRun(threadId, runId) {
      await request(fetch, `${thread(threadId)}/runs/${runId}/cancel`, { method: "POST" });
    },
  };
}

function thread(threadId: string): string {
  return `${GRAPH}/threads/${encodeURIComponent(threadId)}`;
}

function runBody({ model, thinking, planMode }: RunSettings): object {
  return {
    context: {
      ...(model !== null && { model_name: model }),
      ...(thinking !== null && { thinking_enabled: thinking }),
      ...(planMode && { is_plan_mode: true }),
    },
    stream_mode: STREAM_MODES,
    on_disconnect: "continue",
  };
}
