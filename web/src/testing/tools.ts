/** Tool calls, their results and their questions, as the server tells them. */

import type { WireInterrupt, WireMessage, WireToolCall } from "@/api/wire";
import type { Written } from "@/testing/gateway";

export function call(id: string, name: string, args: WireToolCall["args"]): WireToolCall {
  return { id, name, args };
}

/** A message that makes these calls. */
export function calling(...calls: readonly WireToolCall[]): WireMessage {
  return { type: "ai", id: `a-${calls[0]?.id}`, content: "", tool_calls: calls };
}

export function result(callId: string, content: string, status = "success"): WireMessage {
  return { type: "tool", id: `t-${callId}`, tool_call_id: callId, content, status };
}

/** What a run that pauses over these calls asks. */
export function asking(...calls: readonly WireToolCall[]): readonly WireInterrupt[] {
  const names = [...new Set(calls.map(({ name }) => name))];
  const value = {
    action_requests: calls.map(({ name, args }) => ({ name, args, description: `Tool: ${name}` })),
    review_configs: names.map((action_name) => ({
      action_name,
      allowed_decisions: ["approve", "edit", "reject", "respond"],
    })),
  };
  return [{ id: "i", value }];
}

/** A piece of what a running tool prints. */
export function progress(callId: string, output: string): Written {
  return ["custom", { type: "tool_progress", tool_call_id: callId, tool: "bash", output }];
}
