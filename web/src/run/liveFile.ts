/** Files that the agent is writing, from the streamed arguments of `write_file`. */

import { parseJson } from "@/api/json";
import type { Conversation } from "@/run/conversation";
import { findMessage, isActive } from "@/run/conversation";
import type { ToolCall } from "@/run/message";
import { textArgument } from "@/run/toolCalls";

const CONTENT = /"content"\s*:\s*"/;
// `content` comes after a description and a path.
const LONGEST_BEGINNING = 4000;
const RECENT = 8;

/** Reads the text of `content` from growing JSON arguments; every character is read once. */
export class ContentReader {
  private position: number | null = null;
  private text = "";
  private complete = false;

  /** Return the text so far; `args` must begin with the arguments of the last call. */
  read(args: string): string {
    if (this.position === null) {
      const found = CONTENT.exec(args.slice(0, LONGEST_BEGINNING));
      if (found === null) return "";
      this.position = found.index + found[0].length;
    }
    if (this.complete) return this.text;
    const end = this.findEnd(args, this.position);
    this.text += decode(args.slice(this.position, end));
    this.position = end;
    return this.text;
  }

  /** Return the end of what can be decoded: the closing quote, or the last complete character. */
  private findEnd(args: string, from: number): number {
    let at = from;
    while (at < args.length) {
      const sign = args[at];
      if (sign === '"') {
        this.complete = true;
        return at;
      }
      const length = sign !== "\\" ? 1 : args[at + 1] === "u" ? 6 : 2;
      if (at + length > args.length) return at;
      at += length;
    }
    return at;
  }
}

/** Decode a part of a JSON text; some models write line breaks as they are. */
function decode(part: string): string {
  const value = parseJson(
    `"${part.replaceAll("\n", "\\n").replaceAll("\r", "\\r").replaceAll("\t", "\\t")}"`,
  );
  return typeof value === "string" ? value : part;
}

/** Return the last unfinished call of the run that writes a file, or that writes this file. */
export function writingCall(conversation: Conversation, path?: string): ToolCall | null {
  if (!isActive(conversation.run)) return null;
  const { order, settled } = conversation;
  const recent = order.slice(-RECENT);
  const done = new Set(recent.map((id) => settled.get(id)?.toolCallId));
  for (const id of recent.toReversed()) {
    const call = findMessage(conversation, id)?.toolCalls.findLast(
      (each) =>
        each.name === "write_file" &&
        !done.has(each.id) &&
        (path === undefined || textArgument(each, "path") === path),
    );
    if (call !== undefined) return call;
  }
  return null;
}
