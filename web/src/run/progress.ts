/** Live tool output by call id; only the end is kept. */

import { isRecord } from "@/api/json";

export type Progress = ReadonlyMap<string, string>;

const KEPT_CHARS = 8192;
const SHOWN_LINES = 20;

/** Apply a custom event; unrelated events are ignored. */
export function addProgress(progress: Progress, event: unknown): Progress {
  if (!isRecord(event) || event.type !== "tool_progress") return progress;
  const { tool_call_id: callId, output } = event;
  if (typeof callId !== "string" || typeof output !== "string") return progress;
  const all = (progress.get(callId) ?? "") + output;
  return new Map(progress).set(callId, all.slice(-KEPT_CHARS));
}

/** Drop calls that have results. */
export function dropProgress(progress: Progress, callIds: readonly (string | null | undefined)[]): Progress {
  const done = callIds.filter((id) => id != null && progress.has(id));
  if (done.length === 0) return progress;
  return new Map([...progress].filter(([id]) => !done.includes(id)));
}

/** Return the last lines; a carriage return overwrites its line as in a terminal. */
export function lastLines(output: string): string {
  const lines = output.replace(/\r?\n$/, "").split(/\r?\n/);
  return lines
    .slice(-SHOWN_LINES)
    .map((line) => line.replace(/\r$/, "").split("\r").at(-1))
    .join("\n");
}
