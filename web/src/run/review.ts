/** Review decisions parsed from tool results. */

import { type Fields, isRecord, parseJson } from "@/api/json";
import type { Message } from "@/run/message";

export type Review =
  | { readonly type: "rejected"; readonly reason: string }
  | {
      readonly type: "edited";
      /** Arguments that were run. */
      readonly args: Fields;
      readonly output: string;
    };

// LangChain's wording; other results are shown unchanged.
const REJECTED = /^User rejected the tool call for `[^`]*`(?: with reason: (.*))?/s;
const EDITED =
  /^Note: a human reviewer replaced this tool call.* Executed instead: \S+ with arguments (\{.*\})\.(?:\n\nTool response:\n|$)/;

export function reviewOf({ text, failed }: Message): Review | null {
  const rejected = failed ? REJECTED.exec(text) : null;
  if (rejected !== null) return { type: "rejected", reason: rejected[1] ?? "" };
  const edited = EDITED.exec(text);
  const args = parseJson(edited?.[1] ?? "");
  if (edited === null || !isRecord(args)) return null;
  return { type: "edited", args, output: text.slice(edited[0].length) };
}
