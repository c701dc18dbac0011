/** Messages that wait for the run under way to end, or to hear them. */

import { isRecord } from "@/run/json";

/** What a message does to the run under way: waits for its end, ends it, or joins it. */
export type Manner = "enqueue" | "interrupt" | "steer";

export interface Waiting {
  readonly messageId: string;
  readonly text: string;
  readonly manner: Manner;
  /** The run that will answer it; null until the server has taken it. */
  readonly runId: string | null;
  /** How it will be answered: with a to-do list, with subagents. */
  readonly planMode?: boolean;
  readonly subagents?: boolean;
}

const KEY = "deerflow_waiting";
const MANNERS: readonly unknown[] = ["enqueue", "interrupt", "steer"] satisfies Manner[];

/** What a run is told about its message, so that another page can show it while it waits. */
export function waitingMetadata({ messageId, text, manner }: Waiting): object {
  return { [KEY]: { message_id: messageId, text, manner } };
}

/** The message a run that has not begun will answer, as far as a page has noted it. */
export function waitingOf(runId: string, metadata: unknown): Waiting | null {
  const noted = isRecord(metadata) ? metadata[KEY] : null;
  if (!isRecord(metadata) || !isRecord(noted)) return null;
  const { message_id: messageId, text, manner } = noted;
  if (typeof messageId !== "string" || typeof text !== "string" || !MANNERS.includes(manner)) return null;
  const { deerflow_plan, deerflow_subagents } = metadata;
  const settings = { planMode: deerflow_plan === true, subagents: deerflow_subagents === true };
  return { messageId, text, manner: manner as Manner, runId, ...settings };
}
