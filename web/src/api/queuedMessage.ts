/** Queued messages. */

import { isRecord } from "@/api/json";

/** Effect on the active run: wait for it, interrupt it or add to it. */
export type MultitaskStrategy = "enqueue" | "interrupt" | "steer";

export interface QueuedMessage {
  readonly messageId: string;
  readonly text: string;
  readonly strategy: MultitaskStrategy;
  /** The run that will answer; null until accepted. */
  readonly runId: string | null;
  /** Settings of the run. */
  readonly planMode?: boolean;
  readonly subagents?: boolean;
}

const KEY = "deerflow_waiting";
const STRATEGIES: readonly unknown[] = ["enqueue", "interrupt", "steer"] satisfies MultitaskStrategy[];

/** Return run metadata that lets other pages show the message. */
export function queuedMetadata({ messageId, text, strategy }: QueuedMessage): object {
  return { [KEY]: { message_id: messageId, text, manner: strategy } };
}

/** Parse the queued message of a pending run. */
export function queuedMessageOf(runId: string, metadata: unknown): QueuedMessage | null {
  const noted = isRecord(metadata) ? metadata[KEY] : null;
  if (!isRecord(metadata) || !isRecord(noted)) return null;
  const { message_id: messageId, text, manner: strategy } = noted;
  if (typeof messageId !== "string" || typeof text !== "string" || !STRATEGIES.includes(strategy))
    return null;
  const { deerflow_plan, deerflow_subagents } = metadata;
  const settings = { planMode: deerflow_plan === true, subagents: deerflow_subagents === true };
  return { messageId, text, strategy: strategy as MultitaskStrategy, runId, ...settings };
}
