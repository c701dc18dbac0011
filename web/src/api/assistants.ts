/** The agent that runs in a thread. */

import type { WireRun } from "@/api/wire";

export interface ActiveAgent {
  /** Name of a custom agent, null for the lead agent. */
  readonly agent: string | null;
  /** True for a conversation that creates an agent. */
  readonly bootstrap: boolean;
}

export const LEAD_AGENT: ActiveAgent = { agent: null, bootstrap: false };

/** Supplies the agent of the open thread and is notified of the agent of a loaded run. */
export interface AgentBinding {
  current(): ActiveAgent;
  onRunAgent(threadId: string, activeAgent: ActiveAgent): void;
}

export const LEAD_AGENT_ONLY: AgentBinding = { current: () => LEAD_AGENT, onRunAgent: () => {} };

interface RunBody {
  readonly context?: object;
  readonly metadata?: object;
}

/** Return the request fields that select the agent. The metadata repeats them for pages that load later. */
export function assistantFields({ agent, bootstrap }: ActiveAgent, { context, metadata }: RunBody): object {
  return {
    assistant_id: agent ?? "lead_agent",
    ...(bootstrap && {
      context: { ...context, is_bootstrap: true },
      metadata: { ...metadata, deerflow_bootstrap: true },
    }),
  };
}

export function agentOfRun({ assistant_id: name = "lead_agent", metadata }: WireRun): ActiveAgent {
  return { agent: name === "lead_agent" ? null : name, bootstrap: metadata?.deerflow_bootstrap === true };
}
