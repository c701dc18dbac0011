/** Kind, object and reason of tool calls. */

import { fileName } from "@/api/artifacts";
import { parseJson } from "@/api/json";
import type { Strings } from "@/i18n/i18n";
import type { ToolCall } from "@/run/message";
import { summaryLine } from "@/run/toolSummary";

export type ToolKind = keyof Strings["toolVerbs"];
export type GroupKind = keyof Strings["toolGroups"];

const KINDS: Readonly<Record<string, ToolKind>> = {
  bash: "run",
  bash_output: "check",
  bash_kill: "end",
  read_file: "read",
  view_image: "read",
  write_file: "write",
  str_replace: "edit",
  ls: "list",
  glob: "search",
  grep: "search",
  web_search: "search",
  image_search: "search",
  web_fetch: "fetch",
  present_files: "present",
  ask_clarification: "ask",
  task: "delegate",
  task_batch: "delegate",
};

const NAMED_BY_FILE: readonly ToolKind[] = ["read", "write", "edit"];
const LONGEST_OBJECT = 120;
const EARLY_CHARS = 1000;

export function toolKind({ name, args }: ToolCall): ToolKind {
  if (name === "bash" && argument(args, "background") === true) return "start";
  return KINDS[name] ?? "use";
}

/** Return the group kind of a call, null if it is not grouped. */
export function groupKind(call: ToolCall): GroupKind | null {
  const kind = toolKind(call);
  return kind === "read" || kind === "list" || kind === "search" || kind === "fetch" ? kind : null;
}

/** Return the object of a call in one line. */
export function toolObject(call: ToolCall): string {
  const kind = toolKind(call);
  if (kind === "use") return call.name;
  if (kind === "present") return presentedPaths(call).map(fileName).join(", ");
  if (kind === "delegate") return textArgument(call, "description");
  // A more specific argument may still be streaming.
  const otherwise = typeof call.args === "string" ? "" : toolReason(call) || call.name;
  const line = summaryLine((key) => textArgument(call, key)) ?? otherwise.trim().split("\n")[0] ?? "";
  const object = NAMED_BY_FILE.includes(kind) ? fileName(line) : line;
  return object.length > LONGEST_OBJECT ? `${object.slice(0, LONGEST_OBJECT)}…` : object;
}

/** Return true if the object of a call is a text of people: a task, a question, or a search in the web. */
export function isProse(call: ToolCall): boolean {
  const kind = toolKind(call);
  return kind === "delegate" || kind === "ask" || (kind === "search" && call.name.endsWith("_search"));
}

/** Return the model's description of a call. */
export function toolReason(call: ToolCall): string {
  return toolKind(call) === "use" ? "" : textArgument(call, "description").trim();
}

/** Return the number of batch items, null if they are not listed. */
export function itemCount({ args }: ToolCall): number | null {
  const items = argument(args, "items");
  return Array.isArray(items) ? items.length : null;
}

export function presentedPaths({ args }: ToolCall): readonly string[] {
  const paths = argument(args, "filepaths");
  return Array.isArray(paths) ? paths.filter((path) => typeof path === "string") : [];
}

export function textArgument({ args }: ToolCall, key: string): string {
  const value = argument(args, key);
  return typeof value === "string" ? value : "";
}

/** Return the arguments as JSON, or the part streamed so far. */
export function argsText({ args }: ToolCall): string {
  return typeof args === "string" ? args : JSON.stringify(args, null, 2);
}

/** Return the exit code of a failed command. */
export function exitCodeIn(output: string): number | null {
  const code = /\[exit code (-?\d+)\]$/.exec(output)?.[1];
  return code === undefined ? null : Number(code);
}

function argument(args: ToolCall["args"], key: string): unknown {
  return typeof args === "string" ? earlyText(args, key) : args[key];
}

/** Return a text argument. Only the start of streaming arguments is parsed. */
function earlyText(args: string, key: string): unknown {
  const found = new RegExp(`"${key}"\\s*:\\s*("(?:[^"\\\\]|\\\\.)*")`).exec(args.slice(0, EARLY_CHARS));
  return parseJson(found?.[1] ?? "");
}
