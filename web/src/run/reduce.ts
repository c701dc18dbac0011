/**
 * A conversation as a fold over what happened to it.
 *
 * A token touches `streaming` only, which holds the one or two messages that grow right now; `order` and
 * `settled` keep their identity until a step ends. A token so costs the same in a thread of any length.
 */

import type { Changes, Frame, ThreadValues, WireError, WireMessage, WireRun } from "@/api/wire";
import { type Approval, approvalOf } from "@/run/approval";
import { append, emptyMessage, isChunk, isOwn, type Message, messageOf, roleOf } from "@/run/message";
import { addProgress, dropProgress, type Progress } from "@/run/progress";

export type Phase = "idle" | "starting" | "running" | "done" | "stopped" | "failed";

export interface RunError {
  readonly name: string;
  readonly message: string;
}

export interface Run {
  readonly id: string | null;
  readonly phase: Phase;
  /** Whether this page began it with a to-do list to keep. */
  readonly planMode: boolean;
  readonly lastSeq: number;
  /** Whether the stream is connected; a lost one is being looked for. */
  readonly connected: boolean;
  readonly stopping: boolean;
  readonly error: RunError | null;
}

export interface Conversation {
  readonly order: readonly string[];
  readonly settled: ReadonlyMap<string, Message>;
  readonly streaming: ReadonlyMap<string, Message>;
  /** Own messages the server has not taken. */
  readonly unsent: ReadonlySet<string>;
  readonly title: string | null;
  /** What waits for the user's word. */
  readonly approval: Approval | null;
  /** What tools say while they run. */
  readonly progress: Progress;
  /** Virtual paths of the files the agent has presented. */
  readonly artifacts: readonly string[];
  readonly run: Run;
}

export type RunEvent =
  | { readonly type: "opened"; readonly values: ThreadValues; readonly run: WireRun | null }
  | {
      readonly type: "sent";
      readonly messageId: string;
      readonly text: string;
      readonly planMode?: boolean;
      readonly at: number;
    }
  | { readonly type: "decided" }
  | { readonly type: "following"; readonly runId: string }
  | { readonly type: "received"; readonly seq: number; readonly at: number; readonly frame: Frame }
  | { readonly type: "disconnected" }
  | { readonly type: "reconnected" }
  | { readonly type: "stopping" }
  | { readonly type: "broken"; readonly error: RunError };

type Sent = Extract<RunEvent, { readonly type: "sent" }>;

const NO_RUN: Run = {
  id: null,
  phase: "idle",
  planMode: false,
  lastSeq: 0,
  connected: true,
  stopping: false,
  error: null,
};

export const EMPTY_CONVERSATION: Conversation = {
  order: [],
  settled: new Map(),
  streaming: new Map(),
  unsent: new Set(),
  title: null,
  approval: null,
  progress: new Map(),
  artifacts: [],
  run: NO_RUN,
};

export function isActive(run: Run): boolean {
  return run.phase === "starting" || run.phase === "running";
}

export function findMessage(state: Conversation, id: string): Message | undefined {
  return state.streaming.get(id) ?? state.settled.get(id);
}

export function firstOwn({ order, settled }: Conversation): Message | undefined {
  return settled.get(order.find((id) => isOwn(settled.get(id))) ?? "");
}

export function lastOwn({ order, settled }: Conversation): Message | undefined {
  return settled.get(order.findLast((id) => isOwn(settled.get(id))) ?? "");
}

/** Whether the last thing said is a question to the user. */
export function isAsking({ order, settled }: Conversation): boolean {
  const last = order.findLast((id) => settled.get(id)?.hidden !== true);
  return (settled.get(last ?? "")?.question ?? null) !== null;
}

export function reduce(state: Conversation, event: RunEvent): Conversation {
  switch (event.type) {
    case "opened":
      return open(event.values, event.run);
    case "sent":
      return send(state, event);
    case "decided":
      return { ...state, run: { ...NO_RUN, phase: "starting", planMode: state.run.planMode } };
    case "following":
      return follow(state, event.runId);
    case "received":
      return receive(state, event.seq, event.at, event.frame);
    case "disconnected":
      return withRun(state, { connected: false });
    case "reconnected":
      return withRun(state, { connected: true });
    case "stopping":
      return withRun(state, { stopping: true });
    case "broken":
      return breakOff(state, event.error);
  }
}

function open(values: ThreadValues, wire: WireRun | null): Conversation {
  const state = applyChanges(EMPTY_CONVERSATION, { messages: values.messages ?? [], values }, null);
  const run = runOf(wire);
  // The server calls a run interrupted that was stopped, and one that asks.
  const asks = state.approval !== null && run.phase === "stopped";
  return { ...state, run: asks ? { ...run, phase: "idle" } : run };
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
  return { ...NO_RUN, id: run.run_id, phase, error: phase === "failed" ? errorOf(run.error ?? null) : null };
}

function send(state: Conversation, { messageId, text, planMode = false, at }: Sent): Conversation {
  const message: Message = { ...emptyMessage(messageId, "user", at), text, settledAt: at };
  return {
    ...state,
    order: state.settled.has(messageId) ? state.order : [...state.order, messageId],
    settled: new Map(state.settled).set(messageId, message),
    unsent: new Set([...state.unsent].filter((id) => id !== messageId)),
    run: { ...NO_RUN, phase: "starting", planMode },
  };
}

function follow(state: Conversation, runId: string): Conversation {
  const lastSeq = state.run.id === runId ? state.run.lastSeq : 0;
  const run: Run = { ...state.run, id: runId, phase: "running", lastSeq, connected: true };
  // A thread that works waits for nobody: what it asked is decided, or passed over.
  return { ...state, approval: null, run };
}

function receive(state: Conversation, seq: number, at: number, frame: Frame): Conversation {
  if (seq <= state.run.lastSeq) return state;
  const next = withRun(state, { lastSeq: seq });
  switch (frame.event) {
    case "metadata":
      return withRun(next, { id: frame.data.run_id, phase: "running" });
    case "messages":
      return takePiece(next, frame.data[0], at);
    case "changes":
      return applyChanges(next, frame.data, at);
    case "custom":
      return { ...next, progress: addProgress(next.progress, frame.data) };
    case "error":
      return withRun(next, { error: errorOf(frame.data) });
    case "end":
      return end(next, at);
  }
}

function takePiece(state: Conversation, piece: WireMessage, at: number): Conversation {
  const id = piece.id;
  if (id == null || state.settled.has(id)) return state;
  if (!isChunk(piece)) return applyChanges(state, { messages: [piece] }, at);
  const growing = state.streaming.get(id);
  const message = append(growing ?? emptyMessage(id, roleOf(piece.type), at), piece, at);
  return {
    ...state,
    order: growing === undefined ? [...state.order, id] : state.order,
    streaming: new Map(state.streaming).set(id, message),
  };
}

function applyChanges(state: Conversation, changes: Changes, at: number | null): Conversation {
  const settled = new Map(state.settled);
  const streaming = new Map(state.streaming);
  const added: string[] = [];
  for (const wire of changes.messages ?? []) {
    if (wire.id == null) continue;
    if (!settled.has(wire.id) && !streaming.has(wire.id)) added.push(wire.id);
    settled.set(wire.id, messageOf(wire, wire.id, findMessage(state, wire.id), at));
    streaming.delete(wire.id);
  }
  // What was only begun is void; what was said whole has left the agent's view, not the reader's.
  const removed = new Set((changes.removed ?? []).filter((id) => !settled.has(id)));
  for (const id of removed) streaming.delete(id);
  const extended = added.length === 0 ? state.order : [...state.order, ...added];
  const order = removed.size === 0 ? extended : extended.filter((id) => !removed.has(id));
  const { title, artifacts, __interrupt__ } = changes.values ?? {};
  return {
    ...state,
    order,
    settled,
    streaming,
    title: title ?? state.title,
    // A question is open only until something else happens.
    approval: approvalOf(__interrupt__, lastCalling(order, settled)),
    progress: dropProgress(state.progress, changes.messages?.map((wire) => wire.tool_call_id) ?? []),
    artifacts: artifacts ?? state.artifacts,
  };
}

function lastCalling(order: readonly string[], settled: Conversation["settled"]): Message | undefined {
  return settled.get(order.findLast((id) => (settled.get(id)?.toolCalls.length ?? 0) > 0) ?? "");
}

function end(state: Conversation, at: number): Conversation {
  const { error, stopping } = state.run;
  const phase: Phase = stopping ? "stopped" : error === null ? "done" : "failed";
  return settleAll(withRun(state, { phase, connected: true, stopping: false }), at);
}

/** Nothing grows any more: what came of a message is what it is. */
function settleAll(state: Conversation, at: number | null = null): Conversation {
  if (state.streaming.size === 0) return state;
  const settled = new Map(state.settled);
  for (const [id, message] of state.streaming) settled.set(id, { ...message, settledAt: at });
  return { ...state, settled, streaming: new Map() };
}

/** The run cannot be followed any more. One that never got an id was not taken, nor was the message that began it. */
function breakOff(state: Conversation, error: RunError): Conversation {
  const broken = settleAll(withRun(state, { phase: "failed", connected: true, stopping: false, error }));
  const last = state.order.at(-1);
  if (state.run.id !== null || last === undefined || !isOwn(state.settled.get(last))) return broken;
  return { ...broken, unsent: new Set([...state.unsent, last]) };
}

function withRun(state: Conversation, change: Partial<Run>): Conversation {
  return { ...state, run: { ...state.run, ...change } };
}

function errorOf(error: string | WireError | null): RunError {
  if (error === null || typeof error === "string") return { name: "RunFailed", message: error ?? "" };
  return { name: error.name ?? error.error ?? "RunFailed", message: error.message ?? error.detail ?? "" };
}
