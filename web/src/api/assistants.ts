/** Which agent answers. */

import type { WireRun } from "@/api/wire";

export interface Answering {
  /** A custom agent; null is the lead agent. */
  readonly agent: string | null;
  /** Whether the conversation is there to make an agent. */
  readonly bootstrap: boolean;
}

export const LEAD: Answering = { agent: null, bootstrap: false };

/** Who answers in the open thread, and who is told what answered in one. */
export interface Assistants {
  current(): Answering;
  heard(threadId: string, answering: Answering): void;
}

export const ONLY_LEAD: Assistants = { current: () => LEAD, heard: () => {} };

interface RunBody {
  readonly context?: object;
  readonly metadata?: object;
}

/** What a run's request says of who answers; its metadata says so again, to a page that comes later. */
export function answeredBy({ agent, bootstrap }: Answering, { context, metadata }: RunBody): object {
  return {
    assistant_id: agent ?? "lead_agent",
    ...(bootstrap && {
      context: { ...context, is_bootstrap: true },
      metadata: { ...metadata, deerflow_bootstrap: true },
    }),
  };
}

export function whoAnswered({ assistant_id: name = "lead_agent", metadata }: WireRun): Answering {
  return { agent: name === "lead_agent" ? null : name, bootstrap: metadata?.deerflow_bootstrap === true };
}
