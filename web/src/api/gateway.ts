/** The calls this page makes. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { ModelsAnswer, Starter, ThreadValues, WireRun, WireThread } from "@/api/wire";

const GRAPH = "/api/langgraph";
const STREAM_MODES = ["messages-tuple", "changes"] as const;

export interface NewRun {
  readonly messageId: string;
  readonly text: string;
  readonly model: string | null;
  readonly thinking: boolean | null;
  /** Whether the agent keeps a to-do list. */
  readonly planMode: boolean;
}

export interface Gateway {
  models(): Promise<ModelsAnswer>;
  starters(model: string | null): Promise<readonly Starter[]>;
  threads(limit: number): Promise<readonly WireThread[]>;
  said(threadId: string): Promise<ThreadValues>;
  deleteThread(threadId: string): Promise<void>;
  newestRun(threadId: string): Promise<WireRun | null>;
  startRun(threadId: string, run: NewRun, signal: AbortSignal): Promise<Response>;
  joinRun(threadId: string, runId: string, after: number | null, signal: AbortSignal): Promise<Response>;
  cancelRun(threadId: string, runId: string): Promise<void>;
}

export function createGateway(fetch: Fetch): Gateway {
  return {
    models: () => requestJson(fetch, "/api/models"),

    async starters(model) {
      const query = model === null ? "" : `?model=${encodeURIComponent(model)}`;
      const answer = await requestJson<{ starters: Starter[] }>(fetch, `/api/starters${query}`);
      return answer.starters;
    },

    threads: (limit) => requestJson(fetch, `${GRAPH}/threads/search`, jsonBody({ limit, offset: 0 })),

    // Not the state: that holds only what the agent still has in view.
    said: (threadId) => requestJson<ThreadValues>(fetch, `${thread(threadId)}/messages`),

    async deleteThread(threadId) {
      // Kept alive, so that a deletion still leaves when the page does.
      await request(fetch, thread(threadId), { method: "DELETE", keepalive: true });
    },

    async newestRun(threadId) {
      const runs = await requestJson<WireRun[]>(fetch, `${thread(threadId)}/runs?limit=1`);
      return runs[0] ?? null;
    },

    startRun: (threadId, run, signal) =>
      request(fetch, `${thread(threadId)}/runs/stream`, { ...jsonBody(runBody(run)), signal }),

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

function runBody({ messageId, text, model, thinking, planMode }: NewRun): unknown {
  return {
    assistant_id: "lead_agent",
    input: { messages: [{ type: "human", id: messageId, content: text }] },
    context: {
      ...(model !== null && { model_name: model }),
      ...(thinking !== null && { thinking_enabled: thinking }),
      ...(planMode && { is_plan_mode: true }),
    },
    stream_mode: STREAM_MODES,
    on_disconnect: "continue",
    if_not_exists: "create",
  };
}
