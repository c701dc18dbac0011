/** What running tools have said so far: the end of it, by the id of the call. */

import { isRecord } from "@/run/json";

export type Progress = ReadonlyMap<string, string>;

const KEPT_CHARS = 8192;
const SHOWN_LINES = 20;

/** The progress with what a custom event adds to it; other events of that name are none of its business. */
export function addProgress(progress: Progress, event: unknown): Progress {
  if (!isRecord(event) || event.type !== "tool_progress") return progress;
  const { tool_call_id: callId, output } = event;
  if (typeof callId !== "string" || typeof output !== "string") return progress;
  const said = (progress.get(callId) ?? "") + output;
  return new Map(progress).set(callId, said.slice(-KEPT_CHARS));
}

/** The progress without the calls that have their results. */
export function dropProgress(progress: Progress, callIds: readonly (string | null | undefined)[]): Progress {
  const done = callIds.filter((id) => id != null && progress.has(id));
  if (done.length === 0) return progress;
  return new Map([...progress].filter(([id]) => !done.includes(id)));
}

/** The last lines, as a terminal shows them: a carriage return begins its line anew. */
export function lastLines(output: string): string {
  const lines = output.replace(/\r?\n$/, "").split(/\r?\n/);
  return lines
    .slice(-SHOWN_LINES)
    .map((line) => line.replace(/\r$/, "").split("\r").at(-1))
    .join("\n");
}
