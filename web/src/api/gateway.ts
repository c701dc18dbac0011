/** HTTP calls for threads and runs. */

import { agentOfRun, assistantFields, LEAD_AGENT_ONLY } from "@/api/assistants";
import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import { isRecord } from "@/api/json";
import { type MessagePage, toMessagePage } from "@/api/messagePage";
import { type QueuedMessage, queuedMetadata } from "@/api/queuedMessage";
import { type SentFile, withFiles } from "@/api/sentFiles";
import {
  type Decision,
  type ModelsAnswer,
  RUN_QUERY,
  type SandboxInfo,
  type Schemas,
  type Starter,
  type WireError,
  type WireMessagePage,
  type WireRun,
  type WireThread,
} from "@/api/wire";

const GRAPH = "/api/langgraph";
const PAGE_SIZE = 200;
const STREAM_MODES = ["messages-tuple", "changes", "custom"] as const;

/** Model and mode of a run. */
export interface RunSettings {
  readonly model: string | null;
  readonly thinking: boolean | null;
  /** Enables the to-do list. */
  readonly planMode: boolean;
  /** Enables subagents. */
  readonly subagents?: boolean;
  readonly effort?: Effort | null;
}

/** Reasoning effort. */
export type Effort = "low" | "medium" | "high";

/** Checkpoint to start from instead of the latest one. */
interface Begins {
  readonly checkpoint?: string | null;
}

export interface NewRun extends RunSettings, Begins {
  readonly messageId: string;
  readonly text: string;
  readonly files?: readonly SentFile[];
  /** Stays in the context when the thread is summarized. */
  readonly pinned?: boolean;
}

/** A request with the id of its interrupt. */
export interface InterruptedRequest {
  readonly asked: string | null;
}

/** A run that resumes an interrupted one. */
export interface ResumedRun extends RunSettings {
  readonly decisions: readonly Decision[];
  /** The request of each decision; missing if there was one interrupt. */
  readonly requests?: readonly InterruptedRequest[];
}

/** A run that continues from a checkpoint. */
export interface RepeatedRun extends RunSettings {
  /** Null for the latest one. */
  readonly checkpoint: string | null;
}

export interface CopySettings {
  readonly title?: string | null;
  /** For a side question: temporary, and without files. */
  readonly temporary?: boolean;
}

interface ReportPage {
  readonly data: readonly { readonly data: unknown }[];
  readonly has_more: boolean;
  readonly next_after_seq: number;
}

export interface Gateway {
  sandbox(): Promise<SandboxInfo>;
  models(): Promise<ModelsAnswer>;
  starters(model: string | null): Promise<readonly Starter[]>;
  /** List threads with messages, latest activity first, filtered by metadata. */
  threads(limit: number, offset?: number, metadata?: object): Promise<readonly WireThread[]>;
  /** Merge into a thread's metadata. */
  updateThread(threadId: string, metadata: object): Promise<void>;
  /** Load the last page of messages, or the page before a cursor. */
  messagePage(threadId: string, before?: string | null): Promise<MessagePage>;
  deleteThread(threadId: string): Promise<void>;
  /** Create a thread that is not listed or remembered, or make it one. */
  makeTemporary(threadId: string): Promise<void>;
  /** Delete a temporary thread, also while the page is left. */
  endTemporary(threadId: string): Promise<void>;
  /** Summarize all but the latest exchange. */
  compact(threadId: string, model: string | null): Promise<Schemas["Compacted"]["status"]>;
  newestRun(threadId: string): Promise<WireRun | null>;
  startRun(threadId: string, run: NewRun, signal: AbortSignal): Promise<Response>;
  resumeRun(threadId: string, run: ResumedRun, signal: AbortSignal): Promise<Response>;
  repeatRun(threadId: string, run: RepeatedRun, signal: AbortSignal): Promise<Response>;
  /** Queue a message, add it to the active run or interrupt that run; resolves to the run that will answer. */
  addRun(threadId: string, run: NewRun, queued: QueuedMessage): Promise<WireRun>;
  /** List pending and running runs, oldest first. */
  unfinishedRuns(threadId: string): Promise<readonly WireRun[]>;
  /** Load the custom events of a run. */
  reports(threadId: string, runId: string): Promise<readonly unknown[]>;
  /** Return the error of a failed run with its name; the run itself has only the text. */
  runError(threadId: string, runId: string): Promise<WireError | null>;
  /** Return the checkpoint before a run. */
  beginningOf(threadId: string, runId: string): Promise<string | null>;
  /** Return the checkpoint after a run. */
  endOf(threadId: string, runId: string): Promise<string | null>;
  /** Copy a thread, up to a checkpoint if given; resolves to the new id. */
  copyThread(threadId: string, checkpoint: string | null, copy?: CopySettings): Promise<string>;
  joinRun(threadId: string, runId: string, after: number | null, signal: AbortSignal): Promise<Response>;
  cancelRun(threadId: string, runId: string): Promise<void>;
}

export function createGateway(fetch: Fetch, assistants = LEAD_AGENT_ONLY): Gateway {
  const streamRun = (threadId: string, body: object, signal: AbortSignal) => {
    const asked = { ...body, ...assistantFields(assistants.current(), body) };
    return request(fetch, `${thread(threadId)}/runs/stream`, { ...jsonBody(asked), signal });
  };

  async function checkpointOf(threadId: string, metadata: object): Promise<string | null> {
    const body = jsonBody({ limit: 1, metadata });
    const found = await requestJson<{ checkpoint_id: string }[]>(fetch, `${thread(threadId)}/history`, body);
    return found[0]?.checkpoint_id ?? null;
  }

  return {
    sandbox: () => requestJson(fetch, "/api/sandbox"),

    models: () => requestJson(fetch, "/api/models"),

    async starters(model) {
      const query = model === null ? "" : `?model=${encodeURIComponent(model)}`;
      const answer = await requestJson<{ starters: Starter[] }>(fetch, `/api/starters${query}`);
      return answer.starters;
    },

    threads: (limit, offset = 0, metadata = {}) =>
      requestJson(
        fetch,
        `${GRAPH}/threads/search`,
        jsonBody({ limit, offset, metadata, has_messages: true }),
      ),

    async updateThread(threadId, metadata) {
      await request(fetch, thread(threadId), jsonBody({ metadata }, "PATCH"));
    },

    async makeTemporary(threadId) {
      const metadata = { temporary: true };
      await request(
        fetch,
        `${GRAPH}/threads`,
        jsonBody({ thread_id: threadId, metadata, if_exists: "do_nothing" }),
      );
      // An upload may have created the thread before.
      await request(fetch, thread(threadId), jsonBody({ metadata }, "PATCH"));
    },

    async endTemporary(threadId) {
      await request(fetch, `${thread(threadId)}?stop_runs=true`, { method: "DELETE", keepalive: true });
    },

    async compact(threadId, model) {
      const path = `/api/threads/${encodeURIComponent(threadId)}/compact`;
      return (await requestJson<Schemas["Compacted"]>(fetch, path, jsonBody({ model_name: model }))).status;
    },

    // The thread state would only have the messages still in the model's context.
    async messagePage(threadId, before = null) {
      const place = before === null ? "" : `&before=${encodeURIComponent(before)}`;
      const path = `${thread(threadId)}/messages/page?limit=${PAGE_SIZE}${place}`;
      return toMessagePage(await requestJson<WireMessagePage>(fetch, path));
    },

    async deleteThread(threadId) {
      // `keepalive` lets the request finish when the page is closed.
      await request(fetch, thread(threadId), { method: "DELETE", keepalive: true });
    },

    async newestRun(threadId) {
      const runs = await requestJson<WireRun[]>(fetch, `${thread(threadId)}/runs?limit=1&${RUN_QUERY}`);
      const newest = runs[0] ?? null;
      if (newest !== null) assistants.onRunAgent(threadId, agentOfRun(newest));
      return newest;
    },

    startRun(threadId, run, signal) {
      return streamRun(threadId, { if_not_exists: "create", ...messageBody(run) }, signal);
    },

    resumeRun(threadId, { decisions, requests = [], ...settings }, signal) {
      const command = { resume: resumeOf(requests, decisions) };
      return streamRun(threadId, { command, if_not_exists: "reject", ...runBody(settings) }, signal);
    },

    repeatRun(threadId, { checkpoint, ...settings }, signal) {
      return streamRun(threadId, { if_not_exists: "reject", ...runBody(settings, checkpoint) }, signal);
    },

    addRun(threadId, run, queued) {
      const body = messageBody(run);
      const metadata = { ...body.metadata, ...queuedMetadata(queued) };
      const asked = { ...body, metadata, multitask_strategy: queued.strategy, if_not_exists: "reject" };
      const answered = { ...asked, ...assistantFields(assistants.current(), asked) };
      return requestJson(fetch, `${thread(threadId)}/runs`, jsonBody(answered));
    },

    async unfinishedRuns(threadId) {
      const runs = await requestJson<WireRun[]>(fetch, `${thread(threadId)}/runs?limit=100&${RUN_QUERY}`);
      return runs.filter(({ status }) => status === "pending" || status === "running").reverse();
    },

    async reports(threadId, runId) {
      const path = `${thread(threadId)}/runs/${encodeURIComponent(runId)}/events?event_types=custom&limit=1000`;
      const found: unknown[] = [];
      for (let after: number | null = 0; after !== null; ) {
        const page: ReportPage = await requestJson(fetch, `${path}&after_seq=${after}`);
        found.push(...page.data.map(({ data }) => data));
        after = page.has_more ? page.next_after_seq : null;
      }
      return found;
    },

    async runError(threadId, runId) {
      const path = `${thread(threadId)}/runs/${encodeURIComponent(runId)}/events?event_types=error&limit=1`;
      const { data } = await requestJson<ReportPage>(fetch, path);
      return isRecord(data[0]?.data) ? data[0].data : null;
    },

    async beginningOf(threadId, runId) {
      const first = await checkpointOf(threadId, { source: "input", deerflow_run: runId });
      if (first !== null) return first;
      // A repeated run has no input checkpoint; its metadata names the start.
      const run = await requestJson<WireRun>(fetch, `${thread(threadId)}/runs/${encodeURIComponent(runId)}`);
      const noted = run.metadata?.deerflow_from;
      return typeof noted === "string" ? noted : null;
    },

    endOf: (threadId, runId) => checkpointOf(threadId, { deerflow_run: runId }),

    async copyThread(threadId, checkpoint, { title = null, temporary = false } = {}) {
      const body = jsonBody({ checkpoint_id: checkpoint, title, temporary });
      return (await requestJson<WireThread>(fetch, `${thread(threadId)}/copy`, body)).thread_id;
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

function messageBody({
  messageId,
  text,
  files = [],
  pinned = false,
  checkpoint = null,
  ...settings
}: NewRun) {
  const message = { type: "human", id: messageId, content: text };
  const kwargs = { ...(files.length > 0 && withFiles(files)), ...(pinned && { pinned }) };
  const extra = Object.keys(kwargs).length === 0 ? {} : { additional_kwargs: kwargs };
  return { input: { messages: [{ ...message, ...extra }] }, ...runBody(settings, checkpoint) };
}

function runBody(settings: RunSettings, checkpoint: string | null = null) {
  const { model, thinking, planMode, subagents = false, effort = null } = settings;
  return {
    context: {
      ...(model !== null && { model_name: model }),
      ...(thinking !== null && { thinking_enabled: thinking }),
      ...(planMode && { is_plan_mode: true }),
      ...(subagents && { subagent_enabled: true }),
      ...(effort !== null && { reasoning_effort: effort }),
    },
    // Lets a page that loads later resume the run with the same settings.
    metadata: {
      ...(model !== null && { deerflow_model: model }),
      ...(planMode && { deerflow_plan: true }),
      ...(subagents && { deerflow_subagents: true }),
      ...(checkpoint !== null && { deerflow_from: checkpoint }),
    },
    ...(checkpoint !== null && { checkpoint_id: checkpoint }),
    stream_mode: STREAM_MODES,
    on_disconnect: "continue",
  };
}

/** Return the resume value: decisions, by interrupt id if there are several. */
export function resumeOf(requests: readonly InterruptedRequest[], decisions: readonly Decision[]): unknown {
  const asked = [...new Set(requests.map((request) => request.asked))];
  if (asked.length <= 1) return { decisions };
  const part = (id: string | null) => decisions.filter((_, index) => requests[index]?.asked === id);
  return Object.fromEntries(asked.map((id) => [id, { decisions: part(id) }]));
}
