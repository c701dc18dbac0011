/** What of a conversation is shown as an entry of its own. */

import { isBlank, type Message, type ToolCall } from "@/run/message";
import type { Conversation } from "@/run/reduce";

/** Answers to tool calls by the id of the call. They are shown inside the call, not as entries. */
export type ToolResults = ReadonlyMap<string, Message>;

export function toolResults(settled: Conversation["settled"]): ToolResults {
  const results = new Map<string, Message>();
  for (const message of settled.values()) {
    if (message.toolCallId !== null) results.set(message.toolCallId, message);
  }
  return results;
}

/** The ids that are shown, in order. A message that still grows is an assistant's. */
export function shownIds({ order, settled }: Pick<Conversation, "order" | "settled">): readonly string[] {
  return order.filter((id) => {
    const message = settled.get(id);
    return message === undefined || isShown(message);
  });
}

function isShown(message: Message): boolean {
  if (message.hidden || message.role === "tool" || message.role === "system") return false;
  return message.role === "user" || !isBlank(message);
}

export function lastOwnText({ order, settled }: Conversation): string | null {
  const id = order.findLast((candidate) => settled.get(candidate)?.role === "user");
  return (id === undefined ? undefined : settled.get(id)?.text) ?? null;
}

export type ToolKind = "run" | "read" | "write" | "list" | "search" | "fetch" | "use";

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
};

// The argument that says most about a call, the most telling first.
const TELLING = ["command", "path", "file_path", "query", "url", "pattern", "name", "description"];
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
