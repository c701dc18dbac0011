/**
 * A conversation as a fold over what happened to it.
 *
 * A token touches `streaming` only, which holds the one or two messages that grow right now; `order` and
 * `settled` keep their identity until a step ends. A token so costs the same in a thread of any length.
 */

import type { Said } from "@/api/said";
import type { Changes, Frame, WireError, WireMessage, WireRun } from "@/api/wire";
import { approvalOf } from "@/run/approval";
import {
  type Conversation,
  EMPTY_CONVERSATION,
  findMessage,
  isActive,
  NO_RUN,
  type Phase,
  type Run,
  type RunError,
  type RunEvent,
} from "@/run/conversation";
import { addLane, type Lanes } from "@/run/lanes";
import { keepOnly, leftBy } from "@/run/leaving";
import {
  append,
  emptyMessage,
  isChunk,
  isOwn,
  type Message,
  messageOf,
  roleOf,
  type Telling,
} from "@/run/message";
import { addProgress, dropProgress } from "@/run/progress";
import type { Waiting } from "@/run/waiting";

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
      return withUnsent({ ...open(event.values, event.run), waiting: event.waiting ?? [] }, state);
    case "looking earlier":
      return { ...state, earlier: { ...state.earlier, phase: "loading" } };
    case "earlier":
      return prepend(state, event.said);
    case "earlier failed":
      return { ...state, earlier: { ...state.earlier, phase: "failed" } };
    case "sent":
      return send(state, event);
    case "asked again":
      return {
        ...state,
        settled: keepOnly(state.settled, event.keeps),
        undone: NOTHING_UNDONE,
        run: begun(state.run, { branches: true }),
      };
    case "decided":
      return { ...state, run: begun(state.run) };
    case "waits":
      return { ...state, waiting: [...state.waiting, event.waiting] };
    case "taken":
      return { ...state, waiting: state.waiting.map((each) => taken(each, event)) };
    case "withdrawn":
      return { ...state, waiting: state.waiting.filter(({ messageId }) => messageId !== event.messageId) };
    case "lanes":
      return {
        ...state,
        lanes: event.events.reduce<Lanes>((lanes, each) => addLane(lanes, each, 0), state.lanes),
      };
    case "looked back":
      return { ...state, undone: event.undone };
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

const NOTHING_UNDONE: ReadonlySet<string> = new Set();

/** The run that comes next, with the settings of the last or of the message that waited for it. */
function begun({ planMode = false, subagents = false }: Run | Waiting, change: Partial<Run> = {}): Run {
  return { ...NO_RUN, phase: "starting", planMode, subagents, ...change };
}

function taken(waiting: Waiting, { messageId, runId }: { messageId: string; runId: string }): Waiting {
  return waiting.messageId === messageId ? { ...waiting, runId } : waiting;
}

function open(said: Said, wire: WireRun | null): Conversation {
  const state = applyChanges(EMPTY_CONVERSATION, { messages: said.messages ?? [], values: said }, said.told);
  const run = runOf(wire);
  const heard = said.heard != null && said.heard.runId === run.id ? said.heard.seq : 0;
  // The server calls a run interrupted that was stopped, and one that asks.
  const asks = state.approval !== null && run.phase === "stopped";
  return {
    ...state,
    earlier: { before: said.before ?? null, phase: "idle" },
    run: { ...run, lastSeq: isActive(run) ? heard : 0, phase: asks ? "idle" : run.phase },
  };
}

/** The conversation as the server tells it, and what it has not taken. */
function withUnsent(told: Conversation, before: Conversation): Conversation {
  const unsent = [...before.unsent].filter((id) => !told.settled.has(id));
  if (unsent.length === 0) return told;
  const messages = unsent.map((id) => [id, before.settled.get(id)] as const);
  const settled = new Map([
    ...told.settled,
    ...messages.filter((each): each is [string, Message] => each[1] !== undefined),
  ]);
  const run = isActive(told.run) ? told.run : before.run;
  return { ...told, order: [...told.order, ...unsent], settled, unsent: new Set(unsent), run };
}

/** What was said before, in front of what is known; what is known already is known better. */
function prepend(state: Conversation, { messages = [], told, before = null }: Said): Conversation {
  const settled = new Map<string, Message>();
  for (const wire of messages) {
    if (wire.id == null || state.settled.has(wire.id)) continue;
    settled.set(wire.id, messageOf(wire, wire.id, undefined, told?.get(wire.id) ?? {}));
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
  const { deerflow_plan, deerflow_subagents, deerflow_from } = run.metadata ?? {};
  return {
    ...NO_RUN,
    id: run.run_id,
    phase,
    planMode: deerflow_plan === true,
    subagents: deerflow_subagents === true,
    branches: typeof deerflow_from === "string",
    error: phase === "failed" ? errorOf(run.error ?? null) : null,
  };
}

function send(state: Conversation, sent: Sent): Conversation {
  const { messageId, text, files = [], planMode = false, subagents = false, keeps, at } = sent;
  const message: Message = { ...emptyMessage(messageId, "user", at), text, files, settledAt: at };
  const settled = keeps === undefined ? new Map(state.settled) : new Map(keepOnly(state.settled, keeps));
  return {
    ...state,
    order: state.settled.has(messageId) ? state.order : [...state.order, messageId],
    settled: settled.set(messageId, message),
    unsent: new Set([...state.unsent].filter((id) => id !== messageId)),
    undone: NOTHING_UNDONE,
    run: { ...NO_RUN, phase: "starting", planMode, subagents, branches: keeps !== undefined },
  };
}

function follow(state: Conversation, runId: string): Conversation {
  const lastSeq = state.run.id === runId ? state.run.lastSeq : 0;
  const goesOn = state.run.id === null || state.run.id === runId;
  const run: Run = {
    ...(goesOn ? state.run : begun(state.waiting.find((each) => each.runId === runId) ?? state.run)),
    id: runId,
    phase: "running",
    lastSeq,
    connected: true,
  };
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
      return heed(next, frame.data, at);
    case "custom":
      return {
        ...next,
        progress: addProgress(next.progress, frame.data),
        lanes: addLane(next.lanes, frame.data, at),
      };
    case "error":
      return withRun(next, { error: errorOf(frame.data) });
    case "end":
      return end(next, at);
  }
}

function takePiece(state: Conversation, piece: WireMessage, at: number): Conversation {
  const id = piece.id;
  if (id == null || state.settled.has(id)) return state;
  if (!isChunk(piece)) return heed(state, { messages: [piece] }, at);
  const growing = state.streaming.get(id);
  const message = append(growing ?? emptyMessage(id, roleOf(piece.type), at), piece, at);
  return {
    ...state,
    order: growing === undefined ? [...state.order, id] : state.order,
    streaming: new Map(state.streaming).set(id, message),
  };
}

/** What a step of the run under way changed. */
function heed(state: Conversation, changes: Changes, at: number): Conversation {
  const { id: runId, branches } = state.run;
  const before = !branches
    ? state
    : { ...withRun(state, { branches: false }), settled: leftBy(runId, state.settled, changes.removed) };
  const told = new Map<string, Telling>();
  for (const { id } of changes.messages ?? []) {
    if (id == null) continue;
    const thoughtMs = changes.thought_ms?.[id];
    told.set(id, { at, ...(runId !== null && { runId }), ...(thoughtMs !== undefined && { thoughtMs }) });
  }
  return applyChanges(before, changes, told);
}

function applyChanges(
  state: Conversation,
  changes: Changes,
  told: ReadonlyMap<string, Telling> = new Map(),
): Conversation {
  const settled = new Map(state.settled);
  const streaming = new Map(state.streaming);
  const added: string[] = [];
  for (const wire of changes.messages ?? []) {
    if (wire.id == null) continue;
    if (!settled.has(wire.id) && !streaming.has(wire.id)) added.push(wire.id);
    settled.set(wire.id, messageOf(wire, wire.id, findMessage(state, wire.id), told.get(wire.id) ?? {}));
    streaming.delete(wire.id);
  }
  // What was only begun is void; what was said whole has left the agent's view, not the reader's.
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
    waiting: state.waiting.filter(({ messageId }) => !settled.has(messageId)),
    // A question is open only until something else happens.
    approval: approvalOf(__interrupt__, lastCalling(order, settled)),
    progress: dropProgress(state.progress, changes.messages?.map((wire) => wire.tool_call_id) ?? []),
    artifacts: artifacts ?? state.artifacts,
  };
}

/** The order with what is new at its end; but what the user said was heard before the answer that grows meanwhile. */
function extend(
  { order, streaming }: Conversation,
  told: readonly WireMessage[],
  added: ReadonlySet<string>,
): readonly string[] {
  const all = [...order];
  const [growing] = streaming.keys();
  let place = growing === undefined ? -1 : all.lastIndexOf(growing);
  for (const { id, type, additional_kwargs } of told) {
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

/** Nothing grows any more: what came of a message is what it is. */
function settleAll(state: Conversation, at: number | null = null): Conversation {
  if (state.streaming.size === 0) return state;
  const settled = new Map(state.settled);
  for (const [id, message] of state.streaming) settled.set(id, { ...message, settledAt: at });
  return { ...state, settled, streaming: new Map() };
}

/** The run cannot be followed any more. One that never got an id was not taken, nor was the message that began it. */
function breakOff(before: Conversation, error: RunError): Conversation {
  const untaken = before.run.id === null && before.run.branches;
  const state = untaken ? { ...before, settled: leftBy(null, before.settled) } : before;
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
