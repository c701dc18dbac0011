/** Approval requests of a paused run. */

import { type Fields, isRecord } from "@/api/json";
import type { Decision, WireInterrupt } from "@/api/wire";
import type { Message, ToolCall } from "@/run/message";

export type DecisionKind = Decision["type"];

/** A call with complete arguments. */
interface WholeCall extends ToolCall {
  readonly args: Fields;
}

/** One call to approve. */
export interface ApprovalRequest {
  /** Id of its interrupt; a run may have several. */
  readonly asked: string | null;
  readonly call: WholeCall;
  readonly allowed: readonly DecisionKind[];
  /** Reason for the request; null if every call of the tool needs approval. */
  readonly reason: string | null;
  /** Name of the policy rule that asks, if it is one. */
  readonly code: string | null;
  /** What can be allowed for the rest of the thread; null if that is not possible. */
  readonly permission: Permission | null;
}

/** Calls of a tool that a user can allow in a thread. */
export interface Permission {
  /** Hosts of the URLs; calls with others are asked about. */
  readonly hosts: readonly string[];
}

export interface Approval {
  /** The message whose calls wait until every request is decided. */
  readonly messageId: string | null;
  readonly requests: readonly ApprovalRequest[];
}

// Prefix of LangChain's default description.
const PLAIN = "Tool execution requires approval";
const DECISIONS: readonly DecisionKind[] = ["approve", "edit", "reject"];

/** Parse the approval of `paused`; returns null for unknown interrupts. */
export function approvalOf(
  interrupts: readonly WireInterrupt[] | null | undefined,
  paused: Message | undefined,
): Approval | null {
  const open = [...(paused?.toolCalls ?? [])];
  const requests: ApprovalRequest[] = [];
  for (const interrupt of interrupts ?? []) {
    const part = requestsOf(interrupt, open, requests.length);
    // Every interrupt must be answered, so an unknown one disables the form.
    if (part === null) return null;
    requests.push(...part);
  }
  return requests.length === 0 ? null : { messageId: paused?.id ?? null, requests };
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
      code: codeOf(value.reasons),
      permission: permissionOf(value),
    });
  }
  return requests;
}

/** The default description is not a reason. */
function reasonOf(description: unknown): string | null {
  return typeof description === "string" && !description.startsWith(PLAIN)
    ? description.trim() || null
    : null;
}

/** Return the code of the first reason. */
function codeOf(reasons: unknown): string | null {
  const first: unknown = Array.isArray(reasons) ? reasons[0] : null;
  return isRecord(first) && typeof first.code === "string" ? first.code : null;
}

/** Return what the server offers; a tool that always needs approval can be allowed as a whole. */
function permissionOf({ asked_by, permission }: Fields): Permission | null {
  if (asked_by === undefined) return { hosts: [] };
  if (!isRecord(permission)) return null;
  const { hosts } = permission;
  return { hosts: Array.isArray(hosts) ? hosts.filter((host) => typeof host === "string") : [] };
}

/** Remove and return the matching call; the same call may occur twice. */
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
