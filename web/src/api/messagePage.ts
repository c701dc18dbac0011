/** A page of messages with their metadata. */

import type { ThreadValues, WireMessagePage } from "@/api/wire";

/** Metadata of a message. */
export interface MessageMetadata {
  readonly runId: string;
  /** Start of that run (ms). */
  readonly runStartedAt?: number | null;
  /** Time of completion (ms). */
  readonly at: number;
  readonly thoughtMs: number | null;
  /** Duration of the call it is the result of, if that or another of the step took a second (ms). */
  readonly tookMs?: number | null;
  /** The run that branched off before this message. */
  readonly supersededBy: string | null;
}

export interface MessagePage extends ThreadValues {
  readonly metadata?: ReadonlyMap<string, Partial<MessageMetadata>>;
  /** Cursor of the previous page; null or missing on the first page. */
  readonly before?: string | null;
  /** The last event included in this page. */
  readonly lastEvent?: { readonly runId: string; readonly seq: number } | null;
}

export function toMessagePage({ data, values, before, heard }: WireMessagePage): MessagePage {
  const metadata = data.flatMap(
    ({ message, run_id, run_started_at, created_at, thought_ms, took_ms, left_behind_by }) => {
      const about = {
        runId: run_id,
        runStartedAt: Date.parse(run_started_at),
        at: Date.parse(created_at),
        thoughtMs: thought_ms,
        tookMs: took_ms,
      };
      return message.id == null ? [] : [[message.id, { ...about, supersededBy: left_behind_by }] as const];
    },
  );
  return {
    ...values,
    messages: data.map(({ message }) => message),
    metadata: new Map(metadata),
    before,
    lastEvent: heard == null ? null : { runId: heard.run_id, seq: heard.seq },
  };
}
