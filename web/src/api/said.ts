/** Pages of what was said, in the words of the page. */

import type { SaidPage, ThreadValues } from "@/api/wire";

/** What is known of a message beyond its words. */
export interface Told {
  readonly runId: string;
  /** When it was complete (ms). */
  readonly at: number;
  readonly thoughtMs: number | null;
  /** The run that began before this was said and went another way. */
  readonly leftBehindBy: string | null;
}

export interface Said extends ThreadValues {
  readonly told?: ReadonlyMap<string, Partial<Told>>;
  /** Where what was said before this ends; null or missing at the beginning. */
  readonly before?: string | null;
  /** The newest event this knows of. */
  readonly heard?: { readonly runId: string; readonly seq: number } | null;
}

export function saidOf({ data, values, before, heard }: SaidPage): Said {
  const told = data.flatMap(({ message, run_id, created_at, thought_ms, left_behind_by }) => {
    const about = { runId: run_id, at: Date.parse(created_at), thoughtMs: thought_ms };
    return message.id == null ? [] : [[message.id, { ...about, leftBehindBy: left_behind_by }] as const];
  });
  return {
    ...values,
    messages: data.map(({ message }) => message),
    told: new Map(told),
    before,
    heard: heard == null ? null : { runId: heard.run_id, seq: heard.seq },
  };
}
