/** Timeline steps from run events. */

import { isRecord } from "@/api/json";
import type { LoggedEvent } from "@/api/usage";
import type { Changes, WireMessage, WireRun, WireToolCall } from "@/api/wire";
import { hasFailed } from "@/run/message";
import { exitCodeIn } from "@/run/toolCalls";

export interface Step {
  readonly id: string;
  readonly kind: "model" | "tool" | "error";
  /** The tool call, or null for an error. */
  readonly call: WireToolCall | null;
  readonly text: string;
  /** Offset from the start of the run. */
  readonly startMs: number;
  readonly durationMs: number;
  readonly failed: boolean;
  readonly tokens: number | null;
}

export function timelineOf(run: WireRun, events: readonly LoggedEvent[]): readonly Step[] {
  const began = Date.parse(run.created_at);
  const asked = new Map<string, { readonly call: WireToolCall; readonly at: number }>();
  const steps: Step[] = [];
  let last = began;
  const add = (step: Pick<Step, "id" | "kind"> & Partial<Step>, from: number, to: number) =>
    steps.push({
      call: null,
      text: "",
      failed: false,
      tokens: null,
      ...step,
      startMs: Math.max(from - began, 0),
      durationMs: Math.max(to - from, 0),
    });
  for (const { seq, event, data, created_at } of events) {
    const at = Date.parse(created_at);
    if (event === "error") add({ id: `${seq}`, kind: "error", failed: true, text: reasonIn(data) }, at, at);
    if (event !== "changes" || !isRecord(data)) continue;
    for (const message of (data as Changes).messages ?? []) {
      if (message.type === "ai") {
        add({ id: `${seq} ${message.id}`, kind: "model", tokens: tokensOf(message) }, last, at);
        for (const call of message.tool_calls ?? []) asked.set(call.id ?? "", { call, at });
      } else if (message.type === "tool") {
        const made = asked.get(message.tool_call_id ?? "");
        const call = made?.call ?? { name: message.name ?? "", args: {} };
        const step = {
          id: `${seq} ${message.id}`,
          kind: "tool",
          call,
          // A command that ran and failed is a result like any other to the server.
          failed:
            hasFailed(message) || (call.name === "bash" && exitCodeIn(String(message.content)) !== null),
        } as const;
        add(step, made?.at ?? last, at);
      }
    }
    last = at;
  }
  return steps;
}

function tokensOf(message: WireMessage): number | null {
  const usage = (message as { readonly usage_metadata?: unknown }).usage_metadata;
  return isRecord(usage) && typeof usage.total_tokens === "number" ? usage.total_tokens : null;
}

function reasonIn(data: unknown): string {
  if (!isRecord(data)) return "";
  const { message, detail } = data;
  if (typeof message === "string") return message;
  return typeof detail === "string" ? detail : "";
}
