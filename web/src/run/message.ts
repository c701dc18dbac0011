/** Message model, complete or streaming. */

import type { MessageMetadata } from "@/api/messagePage";
import { type SentFile, sentFilesOf } from "@/api/sentFiles";
import type { Content, WireMessage, WireToolCallChunk } from "@/api/wire";
import { type Question, questionOf } from "@/run/question";

export type Role = "user" | "assistant" | "tool" | "system";

export interface ToolCall {
  readonly id: string;
  readonly index: number;
  readonly name: string;
  /** An object, or text while streaming or if the JSON is invalid. */
  readonly args: string | Readonly<Record<string, unknown>>;
}

export interface Message {
  readonly id: string;
  readonly role: Role;
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  readonly toolCallId: string | null;
  readonly toolName: string | null;
  /** Clarification question of a tool. */
  readonly question: Question | null;
  readonly failed: boolean;
  /** The call was stopped by the user. */
  readonly stopped: boolean;
  readonly hidden: boolean;
  /** Summary of the messages before it, which left the context of the agent. */
  readonly summary: string | null;
  /** Stays in the context when the thread is summarized. */
  readonly pinned: boolean;
  /** Files sent by the user. */
  readonly files: readonly SentFile[];
  /** The last run that reported it. */
  readonly runId: string | null;
  /** Start of that run, if known (ms). */
  readonly runStartedAt: number | null;
  /** The run that branched off before this message. */
  readonly supersededBy: string | null;
  /** Time of the first chunk, if streamed here (ms). */
  readonly startedAt: number | null;
  /** Time of completion, if known (ms). */
  readonly settledAt: number | null;
  /** Reasoning time, if known (ms). */
  readonly thoughtMs: number | null;
  /** Duration of the call it is the result of, as the server measured it (ms). */
  readonly tookMs: number | null;
  /** Nobody was asked about the call: the user has allowed such calls in the thread. */
  readonly allowedInThread: boolean;
}

const ROLES: Readonly<Record<string, Role>> = {
  human: "user",
  ai: "assistant",
  tool: "tool",
  system: "system",
};

/** Convert a complete message; times of `seen` are kept. */
export function messageOf(
  wire: WireMessage,
  id: string,
  seen: Message | undefined,
  { at, runId, runStartedAt, thoughtMs, tookMs, supersededBy }: Partial<MessageMetadata>,
): Message {
  return {
    id,
    role: roleOf(wire.type),
    text: textOf(wire.content),
    reasoning: reasoningOf(wire),
    toolCalls: [...(wire.tool_calls ?? []), ...(wire.invalid_tool_calls ?? [])].map((call, index) => ({
      id: call.id ?? `${id}:${index}`,
      index,
      name: call.name,
      args: call.args,
    })),
    toolCallId: wire.tool_call_id ?? null,
    toolName: wire.name ?? null,
    question: questionOf(wire.artifact),
    failed: hasFailed(wire),
    stopped: isStopped(wire),
    hidden: wire.additional_kwargs?.hide_from_ui === true,
    summary: summaryOf(wire),
    pinned: wire.additional_kwargs?.pinned === true,
    files: sentFilesOf(wire.additional_kwargs),
    runId: runId ?? seen?.runId ?? null,
    runStartedAt: runStartedAt ?? seen?.runStartedAt ?? null,
    supersededBy: supersededBy ?? null,
    startedAt: seen?.startedAt ?? at ?? null,
    settledAt: seen?.settledAt ?? at ?? null,
    thoughtMs: thoughtMs ?? seen?.thoughtMs ?? null,
    tookMs: tookMs ?? seen?.tookMs ?? null,
    allowedInThread: wire.additional_kwargs?.allowed_in_thread === true,
  };
}

function summaryOf({ additional_kwargs }: WireMessage): string | null {
  const notes = additional_kwargs?.earlier_notes;
  return typeof notes === "string" && notes !== "" ? notes : null;
}

/** Return true for a failed tool result; stopped calls are not failures. */
export function hasFailed(wire: WireMessage): boolean {
  return wire.status === "error" && !isStopped(wire);
}

function isStopped(wire: WireMessage): boolean {
  return wire.additional_kwargs?.subagent_status === "cancelled";
}

/** Create an empty message. */
export function emptyMessage(id: string, role: Role, at: number): Message {
  return {
    id,
    role,
    text: "",
    reasoning: "",
    toolCalls: [],
    toolCallId: null,
    toolName: null,
    question: null,
    failed: false,
    stopped: false,
    hidden: false,
    summary: null,
    pinned: false,
    files: [],
    runId: null,
    runStartedAt: null,
    supersededBy: null,
    startedAt: at,
    settledAt: null,
    thoughtMs: null,
    tookMs: null,
    allowedInThread: false,
  };
}

/** Append a chunk. */
export function append(message: Message, chunk: WireMessage, at: number): Message {
  const text = textOf(chunk.content);
  const chunks = chunk.tool_call_chunks ?? [];
  const answers = text !== "" || chunks.length > 0;
  const thoughtEnds = answers && message.thoughtMs === null && message.reasoning !== "";
  return {
    ...message,
    text: message.text + text,
    reasoning: message.reasoning + reasoningOf(chunk),
    toolCalls: chunks.reduce(mergeToolCall, message.toolCalls),
    thoughtMs: thoughtEnds ? at - (message.startedAt ?? at) : message.thoughtMs,
  };
}

/** Return true if there is nothing to show. */
export function isBlank({ text, reasoning, toolCalls }: Message): boolean {
  return text === "" && reasoning === "" && toolCalls.length === 0;
}

/** Return true for visible user messages; hidden reminders have the same role. */
export function isOwn(message: Message | undefined): boolean {
  return message?.role === "user" && !message.hidden;
}

export function isChunk(wire: WireMessage): boolean {
  return wire.type.endsWith("Chunk");
}

export function roleOf(type: string): Role {
  return ROLES[type.replace(/Message(Chunk)?$/, "").toLowerCase()] ?? "assistant";
}

export function textOf(content: Content | undefined): string {
  if (typeof content === "string") return content;
  return (content ?? [])
    .map((block) => (typeof block === "string" ? block : block.type === "text" ? (block.text ?? "") : ""))
    .join("");
}

function reasoningOf({ additional_kwargs, content }: WireMessage): string {
  const apart = additional_kwargs?.reasoning_content;
  if (typeof apart === "string") return apart;
  if (typeof content === "string") return "";
  return (content ?? [])
    .map((block) => (typeof block === "string" ? "" : (block.thinking ?? block.reasoning ?? "")))
    .join("");
}

function mergeToolCall(calls: readonly ToolCall[], chunk: WireToolCallChunk): readonly ToolCall[] {
  const at = placeOf(calls, chunk);
  const call = calls[at];
  const piece = chunk.args ?? "";
  if (call === undefined) {
    const index = chunk.index ?? calls.length;
    return [...calls, { id: chunk.id ?? `call:${index}`, index, name: chunk.name ?? "", args: piece }];
  }
  const merged: ToolCall = {
    ...call,
    id: chunk.id ?? call.id,
    name: call.name + (chunk.name ?? ""),
    args: typeof call.args === "string" ? call.args + piece : call.args,
  };
  return calls.with(at, merged);
}

/** Find the call of a chunk by index, id or position; the length means a new call. */
function placeOf(calls: readonly ToolCall[], { index, id }: WireToolCallChunk): number {
  const sameIndex = index == null ? -1 : calls.findIndex((call) => call.index === index);
  if (index != null) return sameIndex < 0 ? calls.length : sameIndex;
  if (id == null) return Math.max(calls.length - 1, 0);
  const sameId = calls.findIndex((call) => call.id === id);
  return sameId < 0 ? calls.length : sameId;
}
