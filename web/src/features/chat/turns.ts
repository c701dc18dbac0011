/** What of a conversation is shown as an entry of its own, and what belongs together within a turn. */

import { isBlank, isOwn, type Message, type ToolCall } from "@/run/message";
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

/** What ties messages together, as far as they are settled. */
export interface Turns {
  readonly results: ToolResults;
  readonly replies: Replies;
  readonly checklists: Checklists;
}

export function turnsOf(state: Settled): Turns {
  const results = toolResults(state.settled);
  return { results, replies: repliesOf(state), checklists: checklistsOf(state, results) };
}

function toolResults(settled: Settled["settled"]): ToolResults {
  const results = new Map<string, Message>();
  for (const message of settled.values()) {
    if (message.toolCallId !== null) results.set(message.toolCallId, message);
  }
  return results;
}

function repliesOf({ order, settled }: Settled): Replies {
  const replies = new Map<string, string | null>();
  let open: string[] = [];
  for (const id of order) {
    const message = settled.get(id);
    if (message?.question != null && message.toolCallId !== null) open.push(message.toolCallId);
    if (message !== undefined && !isShown(message)) continue;
    const reply = message?.role === "user" ? message.text : null;
    for (const callId of open) replies.set(callId, reply);
    open = [];
  }
  return replies;
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

export type ToolKind = "run" | "read" | "write" | "list" | "search" | "fetch" | "ask" | "use";

const KINDS: Readonly<Record<string, ToolKind>> = {
  bash: "run",
  read_file: "read",
  view_image: "read",
  write_file: "write",
  str_replace: "write",
  ls: "list",
  glob: "search",
  grep: "search",
  web_search: "search",
  image_search: "search",
  web_fetch: "fetch",
  ask_clarification: "ask",
};

// The argument that says most about a call, the most telling first.
const TELLING = [
  "command",
  "path",
  "file_path",
  "query",
  "url",
  "pattern",
  "question",
  "name",
  "description",
];
const LONGEST_OBJECT = 120;

export function toolKind(name: string): ToolKind {
  return KINDS[name] ?? "use";
}

/** What a call is about, in one line. */
export function toolObject({ name, args }: ToolCall): string {
  if (toolKind(name) === "use") return name;
  if (typeof args === "string") return "";
  const value = TELLING.map((key) => args[key]).find(
    (candidate) => typeof candidate === "string" && candidate !== "",
  );
  const line = typeof value === "string" ? (value.trim().split("\n")[0] ?? "") : name;
  return line.length > LONGEST_OBJECT ? `${line.slice(0, LONGEST_OBJECT)}…` : line;
}
