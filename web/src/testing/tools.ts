/** Wire messages of tool calls, results and interrupts. */

import type { WireInterrupt, WireMessage, WireToolCall } from "@/api/wire";
import type { WireEvent } from "@/testing/gateway";

export function call(id: string, name: string, args: WireToolCall["args"]): WireToolCall {
  return { id, name, args };
}

/** Create a message with these calls. */
export function calling(...calls: readonly WireToolCall[]): WireMessage {
  return { type: "ai", id: `a-${calls[0]?.id}`, content: "", tool_calls: calls };
}

export function result(callId: string, content: string, status = "success"): WireMessage {
  return { type: "tool", id: `t-${callId}`, tool_call_id: callId, content, status };
}

/** Create the interrupt of these calls. */
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

/** Create a tool output event. */
export function progress(callId: string, output: string): WireEvent {
  return ["custom", { type: "tool_progress", tool_call_id: callId, tool: "bash", output }];
}
