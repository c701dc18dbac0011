/**
 * Reducer of a conversation.
 *
 * A token changes `streaming` only, which holds the one or two messages being streamed; `order` and `settled` keep
 * their identity until a step ends. A token costs the same in a thread of any length.
 */

import { isRecord } from "@/api/json";
import type { MessageMetadata, MessagePage } from "@/api/messagePage";
import type { QueuedMessage } from "@/api/queuedMessage";
import type { Changes, Frame, WireError, WireMessage, WireRun } from "@/api/wire";
import { approvalOf } from "@/run/approval";
import {
  type Conversation,
  EMPTY_CONVERSATION,
  findMessage,
  isActive,
  type ModelRetry,
  NO_RUN,
  type Phase,
  type Run,
  type RunError,
  type RunEvent,
} from "@/run/conversation";
import { append, emptyMessage, isChunk, isOwn, type Message, messageOf, roleOf } from "@/run/message";
import { addProgress, dropProgress } from "@/run/progress";
import { applyTaskEvent, type SubagentTasks } from "@/run/subagentTasks";
import { supersede, supersedeAllBut } from "@/run/supersede";

export {
  type Conversation,
  EMPTY_CONVERSATION,
  findMessage,
  firstOwn,
  isActive,
  isAsking,
  isHere,
  lastOwn,
  type Phase,
  type Run,
  type RunError,
  type RunEvent,
} from "@/run/conversation";

type Sent = Extract<RunEvent, { readonly type: "sent" }>;

export function reduce(state: Conversation, event: RunEvent): Conversation {
  switch (event.type) {
    case "opened":
      return withUnsent({ ...open(event.values, event.run), queued: event.queued ?? [] }, state);
    case "earlierRequested":
      return { ...state, earlier: { ...state.earlier, phase: "loading" } };
    case "earlierLoaded":
      return prepend(state, event.page);
    case "earlierFailed":
      return { ...state, earlier: { ...state.earlier, phase: "failed" } };
    case "sent":
      return send(state, event);
    case "regenerated":
      return {
        ...state,
        settled: supersedeAllBut(state.settled, event.keeps),
        rewoundRuns: NONE_REWOUND,
        run: startedRun(state.run, {
          branches: true,
          model: event.model ?? null,
          startedAt: event.at ?? null,
        }),
      };
    case "decided":
      return {
        ...state,
        run: startedRun(state.run, { model: event.model ?? null, startedAt: event.at ?? null }),
      };
    case "queued":
      return { ...state, queued: [...state.queued, event.queued] };
    case "queueAccepted":
      return { ...state, queued: state.queued.map((each) => taken(each, event)) };
    case "dequeued":
      return { ...state, queued: state.queued.filter(({ messageId }) => messageId !== event.messageId) };
    case "subagentEventsLoaded":
      return {
        ...state,
        subagentTasks: event.events.reduce<SubagentTasks>(
          (subagentTasks, each) => applyTaskEvent(subagentTasks, each, 0),
          state.subagentTasks,
        ),
      };
    case "versionSelected":
      return { ...state, rewoundRuns: event.rewoundRuns };
    case "runJoined":
      return follow(state, event.runId);
    case "frameReceived":
      return receive(state, event.seq, event.at, event.frame);
    case "disconnected":
      return withRun(state, { connected: false });
    case "reconnected":
      return withRun(state, { connected: true });
    case "stopping":
      return withRun(state, { stopping: true });
    case "streamFailed":
      return failRun(state, event.error);
  }
}

const NONE_REWOUND: ReadonlySet<string> = new Set();

/** Return a starting run with the settings of the last run or the queued message. */
function startedRun(
  { planMode = false, subagents = false }: Run | QueuedMessage,
  change: Partial<Run> = {},
): Run {
  return { ...NO_RUN, phase: "starting", planMode, subagents, ...change };
}

function taken(
  queued: QueuedMessage,
  { messageId, runId }: { messageId: string; runId: string },
): QueuedMessage {
  return queued.messageId === messageId ? { ...queued, runId } : queued;
}

function open(page: MessagePage, wire: WireRun | null): Conversation {
  const state = applyChanges(
    EMPTY_CONVERSATION,
    { messages: page.messages ?? [], values: page },
    page.metadata,
  );
  const run = runOf(wire);
  const lastSeq = page.lastEvent != null && page.lastEvent.runId === run.id ? page.lastEvent.seq : 0;
  // The server status "interrupted" means stopped or waiting for approval.
  const asks = state.approval !== null && run.phase === "stopped";
  return {
    ...state,
    earlier: { before: page.before ?? null, phase: "idle" },
    run: { ...run, lastSeq: isActive(run) ? lastSeq : 0, phase: asks ? "idle" : run.phase },
  };
}

/** Add unsent messages to a loaded conversation. */
function withUnsent(loaded: Conversation, before: Conversation): Conversation {
  const unsent = [...before.unsent].filter((id) => !loaded.settled.has(id));
  if (unsent.length === 0) return loaded;
  const messages = unsent.map((id) => [id, before.settled.get(id)] as const);
  const settled = new Map([
    ...loaded.settled,
    ...messages.filter((each): each is [string, Message] => each[1] !== undefined),
  ]);
  const run = isActive(loaded.run) ? loaded.run : before.run;
  return { ...loaded, order: [...loaded.order, ...unsent], settled, unsent: new Set(unsent), run };
}

/** Prepend a page; loaded messages take precedence. */
function prepend(state: Conversation, { messages = [], metadata, before = null }: MessagePage): Conversation {
  const settled = new Map<string, Message>();
  for (const wire of messages) {
    if (wire.id == null || state.settled.has(wire.id)) continue;
    settled.set(wire.id, messageOf(wire, wire.id, undefined, metadata?.get(wire.id) ?? {}));
  }
  return {
    ...state,
    order: [...settled.keys(), ...state.order],
    settled: new Map([...settled, ...state.settled]),
    earlier: { before, phase: "idle" },
  };
}

function runOf(run: WireRun | null): Run {
  if (run === null) return NO_RUN;
  const phases = {
    pending: "running",
    running: "running",
    success: "idle",
    error: "failed",
    timeout: "failed",
    interrupted: "stopped",
  } as const;
  const phase = phases[run.status];
  const { deerflow_plan, deerflow_subagents, deerflow_from, deerflow_model } = run.metadata ?? {};
  return {
    ...NO_RUN,
    id: run.run_id,
    phase,
    planMode: deerflow_plan === true,
    subagents: deerflow_subagents === true,
    branches: typeof deerflow_from === "string",
    model: typeof deerflow_model === "string" ? deerflow_model : null,
    startedAt: Number.isNaN(Date.parse(run.created_at)) ? null : Date.parse(run.created_at),
    error: phase === "failed" ? errorOf(run.error ?? null) : null,
  };
}

function send(state: Conversation, sent: Sent): Conversation {
  const { messageId, text, files = [], planMode = false, subagents = false, model = null, keeps, at } = sent;
  const message: Message = { ...emptyMessage(messageId, "user", at), text, files, settledAt: at };
  const settled =
    keeps === undefined ? new Map(state.settled) : new Map(supersedeAllBut(state.settled, keeps));
  return {
    ...state,
    order: state.settled.has(messageId) ? state.order : [...state.order, messageId],
    settled: settled.set(messageId, message),
    unsent: new Set([...state.unsent].filter((id) => id !== messageId)),
    rewoundRuns: NONE_REWOUND,
    run: {
      ...NO_RUN,
      phase: "starting",
      planMode,
      subagents,
      model,
      startedAt: at,
      branches: keeps !== undefined,
    },
  };
}

function follow(state: Conversation, runId: string): Conversation {
  const lastSeq = state.run.id === runId ? state.run.lastSeq : 0;
  const goesOn = state.run.id === null || state.run.id === runId;
  const run: Run = {
    ...(goesOn ? state.run : startedRun(state.queued.find((each) => each.runId === runId) ?? state.run)),
    id: runId,
    phase: "running",
    lastSeq,
    connected: true,
  };
  // A running thread has no open approval.
  return { ...state, approval: null, run };
}

function receive(state: Conversation, seq: number, at: number, frame: Frame): Conversation {
  if (seq <= state.run.lastSeq) return state;
  const next = withRun(state, { lastSeq: seq });
  switch (frame.event) {
    case "metadata":
      return withRun(next, { id: frame.data.run_id, phase: "running" });
    case "messages":
      return appendChunk(next, frame.data[0], at);
    case "changes":
      return applyStep(next, frame.data, at);
    case "custom":
      return {
        ...withRun(next, { retry: retryIn(frame.data) ?? next.run.retry }),
        progress: addProgress(next.progress, frame.data),
        subagentTasks: applyTaskEvent(next.subagentTasks, frame.data, at),
      };
    case "error":
      return withRun(next, { error: errorOf(frame.data) });
    case "end":
      return end(next, at);
  }
}

function appendChunk(state: Conversation, piece: WireMessage, at: number): Conversation {
  const id = piece.id;
  if (id == null || state.settled.has(id)) return state;
  if (!isChunk(piece)) return applyStep(state, { messages: [piece] }, at);
  const growing = state.streaming.get(id);
  const message = append(growing ?? emptyMessage(id, roleOf(piece.type), at), piece, at);
  return {
    ...(state.run.retry === null ? state : withRun(state, { retry: null })),
    order: growing === undefined ? [...state.order, id] : state.order,
    streaming: new Map(state.streaming).set(id, message),
  };
}

/** Apply the changes of a step. */
function applyStep(state: Conversation, changes: Changes, at: number): Conversation {
  const { id: runId, startedAt, branches } = state.run;
  const before = !branches
    ? state
    : { ...withRun(state, { branches: false }), settled: supersede(runId, state.settled, changes.removed) };
  const metadata = new Map<string, Partial<MessageMetadata>>();
  for (const { id } of changes.messages ?? []) {
    if (id == null) continue;
    const thoughtMs = changes.thought_ms?.[id];
    const tookMs = changes.took_ms?.[id];
    metadata.set(id, {
      at,
      ...(runId !== null && { runId, runStartedAt: startedAt }),
      ...(thoughtMs !== undefined && { thoughtMs }),
      ...(tookMs !== undefined && { tookMs }),
    });
  }
  return applyChanges(before, changes, metadata);
}

function applyChanges(
  state: Conversation,
  changes: Changes,
  metadata: ReadonlyMap<string, Partial<MessageMetadata>> = new Map(),
): Conversation {
  const settled = new Map(state.settled);
  const streaming = new Map(state.streaming);
  const added: string[] = [];
  for (const wire of changes.messages ?? []) {
    if (wire.id == null) continue;
    if (!settled.has(wire.id) && !streaming.has(wire.id)) added.push(wire.id);
    settled.set(wire.id, messageOf(wire, wire.id, findMessage(state, wire.id), metadata.get(wire.id) ?? {}));
    streaming.delete(wire.id);
  }
  // Removed streaming messages are dropped; complete ones stay visible.
  const removed = new Set((changes.removed ?? []).filter((id) => !settled.has(id)));
  for (const id of removed) streaming.delete(id);
  const extended = added.length === 0 ? state.order : extend(state, changes.messages ?? [], new Set(added));
  const order = removed.size === 0 ? extended : extended.filter((id) => !removed.has(id));
  const { title, artifacts, __interrupt__ } = changes.values ?? {};
  return {
    ...state,
    order,
    settled,
    streaming,
    title: title ?? state.title,
    queued: state.queued.filter(({ messageId }) => !settled.has(messageId)),
    // An approval is open until the next change.
    approval: approvalOf(__interrupt__, lastCalling(order, settled)),
    progress: dropProgress(state.progress, changes.messages?.map((wire) => wire.tool_call_id) ?? []),
    artifacts: artifacts ?? state.artifacts,
  };
}

/** Append new ids; user messages go before the response that is streaming. */
function extend(
  { order, streaming }: Conversation,
  messages: readonly WireMessage[],
  added: ReadonlySet<string>,
): readonly string[] {
  const all = [...order];
  const [growing] = streaming.keys();
  let place = growing === undefined ? -1 : all.lastIndexOf(growing);
  for (const { id, type, additional_kwargs } of messages) {
    if (id == null || !added.has(id)) continue;
    const own = roleOf(type) === "user" && additional_kwargs?.hide_from_ui !== true;
    if (place >= 0 && own) all.splice(place++, 0, id);
    else all.push(id);
  }
  return all;
}

function lastCalling(order: readonly string[], settled: Conversation["settled"]): Message | undefined {
  return settled.get(order.findLast((id) => (settled.get(id)?.toolCalls.length ?? 0) > 0) ?? "");
}

function end(state: Conversation, at: number): Conversation {
  const { error, stopping } = state.run;
  const phase: Phase = stopping ? "stopped" : error === null ? "done" : "failed";
  return settleAll(withRun(state, { phase, connected: true, stopping: false }), at);
}

/** Settle all streaming messages. */
function settleAll(state: Conversation, at: number | null = null): Conversation {
  if (state.streaming.size === 0) return state;
  const settled = new Map(state.settled);
  for (const [id, message] of state.streaming) settled.set(id, { ...message, settledAt: at });
  return { ...state, settled, streaming: new Map() };
}

/** Fail the run. Without a run id its message was not accepted either. */
function failRun(before: Conversation, error: RunError): Conversation {
  const untaken = before.run.id === null && before.run.branches;
  const state = untaken ? { ...before, settled: supersede(null, before.settled) } : before;
  const broken = settleAll(withRun(state, { phase: "failed", connected: true, stopping: false, error }));
  const last = state.order.at(-1);
  if (state.run.id !== null || last === undefined || !isOwn(state.settled.get(last))) return broken;
  return { ...broken, unsent: new Set([...state.unsent, last]) };
}

/** Return the retry that an event announces. */
function retryIn(event: unknown): ModelRetry | null {
  if (!isRecord(event) || event.type !== "llm_retry") return null;
  const { attempt, max_attempts: maxAttempts, reason } = event;
  if (typeof attempt !== "number" || typeof maxAttempts !== "number" || typeof reason !== "string")
    return null;
  return { attempt, maxAttempts, reason };
}

function withRun(state: Conversation, change: Partial<Run>): Conversation {
  return { ...state, run: { ...state.run, ...change } };
}

function errorOf(error: string | WireError | null): RunError {
  if (error === null || typeof error === "string") return { name: "RunFailed", message: error ?? "" };
  return { name: error.name ?? error.error ?? "RunFailed", message: error.message ?? error.detail ?? "" };
}
