/** What the agent wants to do and may not do before the user agrees. */

import type { Decision, WireInterrupt } from "@/api/wire";
import { type Fields, isRecord } from "@/run/json";
import type { Message, ToolCall } from "@/run/message";

export type DecisionKind = Decision["type"];

/** A call as the user is asked about it: whole. */
interface WholeCall extends ToolCall {
  readonly args: Fields;
}

/** One call that waits. */
export interface ApprovalRequest {
  readonly call: WholeCall;
  readonly allowed: readonly DecisionKind[];
}

export interface Approval {
  /** The message whose calls wait, all of them until each request is decided. */
  readonly messageId: string | null;
  readonly requests: readonly ApprovalRequest[];
}

const DECISIONS: readonly DecisionKind[] = ["approve", "edit", "reject"];

/** What `paused`, the newest message, waits for; null where nothing is asked that this page understands. */
export function approvalOf(
  interrupts: readonly WireInterrupt[] | null | undefined,
  paused: Message | undefined,
): Approval | null {
  const asked = interrupts?.[0]?.value;
  if (!isRecord(asked) || !Array.isArray(asked.action_requests) || asked.action_requests.length === 0)
    return null;
  const configs = Array.isArray(asked.review_configs) ? asked.review_configs : [];
  const open = [...(paused?.toolCalls ?? [])];
  const requests: ApprovalRequest[] = [];
  for (const [index, action] of asked.action_requests.entries()) {
    if (!isRecord(action) || typeof action.name !== "string" || !isRecord(action.args)) return null;
    const { name, args } = action;
    const id = takeCall(open, name, args)?.id ?? `request:${index}`;
    requests.push({ call: { id, index, name, args }, allowed: allowedFor(configs, name) });
  }
  return { messageId: paused?.id ?? null, requests };
}

/** The call that is asked about, taken out of `open`: the same call may be made twice. */
function takeCall(open: ToolCall[], name: string, args: object): ToolCall | undefined {
  const text = JSON.stringify(args);
  const at = open.findIndex((call) => call.name === name && JSON.stringify(call.args) === text);
  return at < 0 ? undefined : open.splice(at, 1)[0];
}

function allowedFor(configs: readonly unknown[], name: string): readonly DecisionKind[] {
  const config = configs.find((candidate) => isRecord(candidate) && candidate.action_name === name);
  const allowed = isRecord(config) ? config.allowed_decisions : null;
  return Array.isArray(allowed) ? DECISIONS.filter((decision) => allowed.includes(decision)) : DECISIONS;
}
