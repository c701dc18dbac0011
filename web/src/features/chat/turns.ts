/** Groups messages into turns and entries. */

import { answerIn } from "@/run/answers";
import { isBlank, isOwn, type Message, type ToolCall } from "@/run/message";
import type { Question } from "@/run/question";
import type { Conversation } from "@/run/reduce";
import { type Todo, todosOf, writesTodos } from "@/run/todos";
import { type GroupKind, groupKind, toolKind } from "@/run/toolCalls";

type Settled = Pick<Conversation, "order" | "settled">;

/** Tool results by call id, shown inside the call. */
type ToolResults = ReadonlyMap<string, Message>;

/** Answers by call id; null if the agent continued without one. */
type Replies = ReadonlyMap<string, string | null>;

/** To-do lists: one per turn, shown at its first call. */
interface Checklists {
  /** The latest list of each turn, by the call it is shown at. */
  readonly shown: ReadonlyMap<string, readonly Todo[]>;
  /** Calls that updated a list shown further up. */
  readonly folded: ReadonlySet<string>;
  /** The call that shows the list of the newest turn. */
  readonly current: string | null;
}

/** A call with its message. */
export interface Called {
  readonly call: ToolCall;
  readonly caller: Message;
}

export interface Group {
  readonly kind: GroupKind;
  readonly calls: readonly Called[];
}

/** Consecutive similar calls shown as one. */
interface Groups {
  /** Groups by their first call. */
  readonly shown: ReadonlyMap<string, Group>;
  readonly folded: ReadonlySet<string>;
}

const SMALLEST_GROUP = 3;
const SMALLEST_FOLD = 3;

/** Finished steps of a turn, shown as one line. */
export interface Fold {
  /** Messages that are hidden unless it is open. */
  readonly ids: ReadonlySet<string>;
  readonly steps: number;
  readonly durationMs: number | null;
}

/** Relations between settled messages. */
export interface Turns {
  readonly results: ToolResults;
  readonly replies: Replies;
  /** Open questions by call id; several are shown in one form. */
  readonly open: ReadonlyMap<string, Question>;
  readonly checklists: Checklists;
  readonly groups: Groups;
}

export function turnsOf(state: Settled): Turns {
  const results = toolResults(state.settled);
  return {
    results,
    ...repliesOf(state),
    checklists: checklistsOf(state, results),
    groups: groupsOf(state, results),
  };
}

function toolResults(settled: Settled["settled"]): ToolResults {
  const results = new Map<string, Message>();
  for (const message of settled.values()) {
    if (message.toolCallId !== null) results.set(message.toolCallId, message);
  }
  return results;
}

function repliesOf({ order, settled }: Settled): Pick<Turns, "replies" | "open"> {
  const replies = new Map<string, string | null>();
  let open = new Map<string, Question>();
  for (const id of order) {
    const message = settled.get(id);
    if (message?.question != null && message.toolCallId !== null)
      open.set(message.toolCallId, message.question);
    if (message !== undefined && !isShown(message)) continue;
    const reply = message?.role === "user" ? message.text : null;
    const asked = [...open.values()].map(({ text }) => text);
    for (const [callId, { text }] of open)
      replies.set(callId, reply === null || asked.length === 1 ? reply : answerIn(reply, text, asked));
    open = new Map();
  }
  return { replies, open };
}

function checklistsOf({ order, settled }: Settled, results: ToolResults): Checklists {
  const shown = new Map<string, readonly Todo[]>();
  const folded = new Set<string>();
  let current: string | null = null;
  for (const id of order) {
    const message = settled.get(id);
    if (isOwn(message)) current = null;
    for (const call of message?.toolCalls ?? []) {
      const todos = writesTodos(call) && results.get(call.id)?.failed !== true ? todosOf(call) : null;
      if (todos === null) continue;
      if (current !== null) folded.add(call.id);
      current ??= call.id;
      shown.set(current, todos);
    }
  }
  return { shown, folded, current };
}

function groupsOf({ order, settled }: Settled, results: ToolResults): Groups {
  const shown = new Map<string, Group>();
  const folded = new Set<string>();
  let kind: GroupKind | null = null;
  let calls: Called[] = [];
  const close = () => {
    const [first, ...rest] = calls;
    if (kind !== null && first !== undefined && calls.length >= SMALLEST_GROUP) {
      shown.set(first.call.id, { kind, calls });
      for (const { call } of rest) folded.add(call.id);
    }
    calls = [];
  };
  for (const id of order) {
    const message = settled.get(id);
    if (message === undefined || !isShown(message)) continue;
    if (message.text !== "" || message.reasoning !== "") close();
    for (const call of message.toolCalls) {
      // Failed and unfinished calls are not grouped.
      const next = results.get(call.id)?.failed === false ? groupKind(call) : null;
      if (next !== kind) close();
      kind = next;
      if (kind !== null) calls.push({ call, caller: message });
    }
  }
  close();
  return { shown, folded };
}

/**
 * Return the folds of finished turns by their first message. The answer, files, questions and the plan stay visible;
 * a turn without an answer is not folded.
 */
export function foldsOf(
  { order, settled }: Settled,
  turns: Turns,
  active: boolean,
): ReadonlyMap<string, Fold> {
  const folds = new Map<string, Fold>();
  let turn: Message[] = [];
  const close = () => {
    const answer = turn.at(-1);
    const steps = turn.filter((message) => isStep(message, turns));
    const calls = steps.flatMap(({ toolCalls }) => toolCalls).filter((call) => !writesTodos(call));
    const [first] = steps;
    if (first !== undefined && answer?.toolCalls.length === 0 && calls.length >= SMALLEST_FOLD)
      folds.set(first.id, {
        ids: new Set(steps.map(({ id }) => id)),
        steps: calls.length,
        durationMs: durationOf(turn),
      });
    turn = [];
  };
  for (const id of order) {
    const message = settled.get(id);
    if (message !== undefined && isOwn(message)) close();
    if (message !== undefined && (isOwn(message) || (isShown(message) && message.role === "assistant")))
      turn.push(message);
  }
  // The last turn may still grow.
  if (!active) close();
  return folds;
}

function isStep({ role, toolCalls }: Message, { results, checklists }: Turns): boolean {
  const stays = (call: ToolCall) =>
    checklists.shown.has(call.id) || toolKind(call) === "present" || results.get(call.id)?.question != null;
  return role === "assistant" && toolCalls.length > 0 && !toolCalls.some(stays);
}

/** Return the time of all runs of a turn: in between, the turn waited for somebody. */
function durationOf(turn: readonly Message[]): number | null {
  const times = new Map<string | null, { first: number; last: number }>();
  for (const { runId, runStartedAt, settledAt } of turn) {
    if (settledAt === null) continue;
    const first = runStartedAt ?? settledAt;
    const known = times.get(runId) ?? { first, last: settledAt };
    times.set(runId, { first: Math.min(known.first, first), last: Math.max(known.last, settledAt) });
  }
  if (times.size === 0) return null;
  return [...times.values()].reduce((sum, { first, last }) => sum + last - first, 0);
}

/** Return the call that is streaming a to-do list. */
export function todosBeingWritten(streaming: Conversation["streaming"]): ToolCall | undefined {
  return [...streaming.values()].flatMap(({ toolCalls }) => toolCalls).findLast(writesTodos);
}

/** Return the visible ids in order. Streaming messages are the assistant's. */
export function shownIds({ order, settled }: Settled): readonly string[] {
  return order.filter((id) => {
    const message = settled.get(id);
    return message === undefined || isShown(message);
  });
}

/** Return summaries of earlier messages by the first entry after them. */
export function summariesOf(
  { order, settled }: Settled,
  shown: readonly string[],
): ReadonlyMap<string, string> {
  const visible = new Set(shown);
  const found = new Map<string, string>();
  let waiting: string | null = null;
  for (const id of order) {
    waiting = settled.get(id)?.summary ?? waiting;
    if (waiting === null || !visible.has(id)) continue;
    found.set(id, waiting);
    waiting = null;
  }
  return found;
}

function isShown(message: Message): boolean {
  if (message.hidden || message.role === "tool" || message.role === "system") return false;
  return message.role === "user" || !isBlank(message);
}
