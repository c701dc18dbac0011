/** What of a conversation is shown as an entry of its own, and what belongs together within a turn. */

import { type GroupKind, groupKind } from "@/features/chat/tools";
import { answerIn } from "@/run/answers";
import { isBlank, isOwn, type Message, type ToolCall } from "@/run/message";
import type { Question } from "@/run/question";
import type { Conversation } from "@/run/reduce";
import { type Todo, todosOf, writesTodos } from "@/run/todos";

type Settled = Pick<Conversation, "order" | "settled">;

/** Answers to tool calls by the id of the call. They are shown inside the call, not as entries. */
type ToolResults = ReadonlyMap<string, Message>;

/** What became of questions, by the id of the call: what the user said, or null if it went on without that. */
type Replies = ReadonlyMap<string, string | null>;

/** The to-do lists. A turn has one, which stays where it was first written while later calls change it. */
interface Checklists {
  /** The newest list of each turn, by the call it is shown at. */
  readonly shown: ReadonlyMap<string, readonly Todo[]>;
  /** The calls that changed a list shown further up. */
  readonly folded: ReadonlySet<string>;
  /** The call the list of the newest turn is shown at. */
  readonly current: string | null;
}

/** A call and when it was made, as far as this page saw that. */
export interface Called {
  readonly call: ToolCall;
  readonly calledAt: number | null;
}

export interface Group {
  readonly kind: GroupKind;
  readonly calls: readonly Called[];
}

/** Similar calls one after the other that are shown as one. */
interface Groups {
  /** By the call a group is shown at: its first. */
  readonly shown: ReadonlyMap<string, Group>;
  readonly folded: ReadonlySet<string>;
}

const SMALLEST_GROUP = 3;

/** What ties messages together, as far as they are settled. */
export interface Turns {
  readonly results: ToolResults;
  readonly replies: Replies;
  /** Questions nobody has answered, by the id of the call; several of them are asked in one form. */
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
      // What failed, or is not done, is for the reader to see.
      const next = results.get(call.id)?.failed === false ? groupKind(call) : null;
      if (next !== kind) close();
      kind = next;
      if (kind !== null) calls.push({ call, calledAt: message.settledAt });
    }
  }
  close();
  return { shown, folded };
}

/** The call that writes a to-do list right now. */
export function todosBeingWritten(streaming: Conversation["streaming"]): ToolCall | undefined {
  return [...streaming.values()].flatMap(({ toolCalls }) => toolCalls).findLast(writesTodos);
}

/** The ids that are shown, in order. A message that still grows is an assistant's. */
export function shownIds({ order, settled }: Settled): readonly string[] {
  return order.filter((id) => {
    const message = settled.get(id);
    return message === undefined || isShown(message);
  });
}

function isShown(message: Message): boolean {
  if (message.hidden || message.role === "tool" || message.role === "system") return false;
  return message.role === "user" || !isBlank(message);
}
