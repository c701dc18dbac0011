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
  /** The question it is part of; a run may ask several at once. */
  readonly asked: string | null;
  readonly call: WholeCall;
  readonly allowed: readonly DecisionKind[];
  /** Why the user is asked; null where it is so for every call of the tool. */
  readonly reason: string | null;
}

export interface Approval {
  /** The message whose calls wait, all of them until each request is decided. */
  readonly messageId: string | null;
  readonly requests: readonly ApprovalRequest[];
}

// How LangChain begins what it says of a tool of which every call is asked about.
const PLAIN = "Tool execution requires approval";
const DECISIONS: readonly DecisionKind[] = ["approve", "edit", "reject"];

/** What `paused`, the newest message, waits for; null where nothing is asked that this page understands. */
export function approvalOf(
  interrupts: readonly WireInterrupt[] | null | undefined,
  paused: Message | undefined,
): Approval | null {
  const open = [...(paused?.toolCalls ?? [])];
  const requests: ApprovalRequest[] = [];
  for (const interrupt of interrupts ?? []) {
    const part = requestsOf(interrupt, open, requests.length);
    // An answer that leaves a question out would be none: all is understood, or nothing asked.
    if (part === null) return null;
    requests.push(...part);
  }
  return requests.length === 0 ? null : { messageId: paused?.id ?? null, requests };
}

/** What a run is told when it goes on: the decisions, by question where it asked several. */
export function resumeOf(
  requests: readonly Pick<ApprovalRequest, "asked">[],
  decisions: readonly Decision[],
): unknown {
  const asked = [...new Set(requests.map((request) => request.asked))];
  if (asked.length <= 1) return { decisions };
  const part = (id: string | null) => decisions.filter((_, index) => requests[index]?.asked === id);
  return Object.fromEntries(asked.map((id) => [id, { decisions: part(id) }]));
}

function requestsOf(
  { id, value }: WireInterrupt,
  open: ToolCall[],
  first: number,
): readonly ApprovalRequest[] | null {
  if (!isRecord(value) || !Array.isArray(value.action_requests) || value.action_requests.length === 0)
    return null;
  const configs = Array.isArray(value.review_configs) ? value.review_configs : [];
  const requests: ApprovalRequest[] = [];
  for (const [place, action] of value.action_requests.entries()) {
    if (!isRecord(action) || typeof action.name !== "string" || !isRecord(action.args)) return null;
    const { name, args } = action;
    const index = first + place;
    const callId = takeCall(open, name, args)?.id ?? `request:${index}`;
    requests.push({
      asked: id ?? null,
      call: { id: callId, index, name, args },
      allowed: allowedFor(configs, name),
      reason: reasonOf(action.description),
    });
  }
  return requests;
}

/** What says no more than that somebody is asked is no reason. */
function reasonOf(description: unknown): string | null {
  return typeof description === "string" && !description.startsWith(PLAIN)
    ? description.trim() || null
    : null;
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
