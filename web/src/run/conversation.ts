/** The state of a conversation, and everything that can happen to it. */

import type { Said } from "@/api/said";
import type { Frame, WireRun } from "@/api/wire";
import type { Approval } from "@/run/approval";
import type { SentFile } from "@/run/files";
import type { Lanes } from "@/run/lanes";
import { isOwn, type Message } from "@/run/message";
import type { Progress } from "@/run/progress";
import type { Waiting } from "@/run/waiting";

export type Phase = "idle" | "starting" | "running" | "done" | "stopped" | "failed";

export interface RunError {
  readonly name: string;
  readonly message: string;
}

export interface Run {
  readonly id: string | null;
  readonly phase: Phase;
  /** Whether it was begun with a to-do list to keep. */
  readonly planMode: boolean;
  /** Whether it was begun with subagents to give work to. */
  readonly subagents: boolean;
  /** Whether it begins before the end of the thread, and has not said yet what it leaves behind. */
  readonly branches: boolean;
  readonly lastSeq: number;
  /** Whether the stream is connected; a lost one is being looked for. */
  readonly connected: boolean;
  readonly stopping: boolean;
  readonly error: RunError | null;
}

/** What was said before what is known here. */
export interface Earlier {
  /** Where it ends; null: there is nothing before. */
  readonly before: string | null;
  readonly phase: "idle" | "loading" | "failed";
}

export interface Conversation {
  readonly order: readonly string[];
  readonly settled: ReadonlyMap<string, Message>;
  readonly streaming: ReadonlyMap<string, Message>;
  /** Own messages the server has not taken. */
  readonly unsent: ReadonlySet<string>;
  readonly title: string | null;
  readonly earlier: Earlier;
  /** Runs past which the reader has gone back, to what they left behind. */
  readonly undone: ReadonlySet<string>;
  /** Own messages that wait while the run under way goes on. */
  readonly waiting: readonly Waiting[];
  /** What waits for the user's word. */
  readonly approval: Approval | null;
  /** What tools say while they run. */
  readonly progress: Progress;
  /** What subagents do, by the id of the call that gave them work. */
  readonly lanes: Lanes;
  /** Virtual paths of the files the agent has presented. */
  readonly artifacts: readonly string[];
  readonly run: Run;
}

export type RunEvent =
  | {
      readonly type: "opened";
      readonly values: Said;
      readonly run: WireRun | null;
      readonly waiting?: readonly Waiting[];
    }
  | { readonly type: "looking earlier" }
  | { readonly type: "earlier"; readonly said: Said }
  | { readonly type: "earlier failed" }
  | {
      readonly type: "sent";
      readonly messageId: string;
      readonly text: string;
      readonly files?: readonly SentFile[];
      readonly planMode?: boolean;
      readonly subagents?: boolean;
      /** What stays of the conversation, if this goes another way. */
      readonly keeps?: readonly string[];
      readonly at: number;
    }
  /** An answer is to be made anew; `keeps` is what was said before it. */
  | { readonly type: "asked again"; readonly keeps: readonly string[] }
  | { readonly type: "waits"; readonly waiting: Waiting }
  | { readonly type: "taken"; readonly messageId: string; readonly runId: string }
  | { readonly type: "withdrawn"; readonly messageId: string }
  /** What subagents of an earlier run did. */
  | { readonly type: "lanes"; readonly events: readonly unknown[] }
  | { readonly type: "looked back"; readonly undone: ReadonlySet<string> }
  | { readonly type: "decided" }
  | { readonly type: "following"; readonly runId: string }
  | { readonly type: "received"; readonly seq: number; readonly at: number; readonly frame: Frame }
  | { readonly type: "disconnected" }
  | { readonly type: "reconnected" }
  | { readonly type: "stopping" }
  | { readonly type: "broken"; readonly error: RunError };

export const NO_RUN: Run = {
  id: null,
  phase: "idle",
  planMode: false,
  subagents: false,
  branches: false,
  lastSeq: 0,
  connected: true,
  stopping: false,
  error: null,
};

/** Whether the server knows the thread: it has taken a message of it. */
export function isBegun({ order, run }: Conversation): boolean {
  return run.id !== null || (order.length > 0 && run.phase !== "starting");
}

export const EMPTY_CONVERSATION: Conversation = {
  order: [],
  settled: new Map(),
  streaming: new Map(),
  unsent: new Set(),
  title: null,
  earlier: { before: null, phase: "idle" },
  undone: new Set(),
  waiting: [],
  approval: null,
  progress: new Map(),
  lanes: new Map(),
  artifacts: [],
  run: NO_RUN,
};

export function isActive(run: Run): boolean {
  return run.phase === "starting" || run.phase === "running";
}

export function findMessage(state: Conversation, id: string): Message | undefined {
  return state.streaming.get(id) ?? state.settled.get(id);
}

export function firstOwn({ order, settled }: Conversation): Message | undefined {
  return settled.get(order.find((id) => isOwn(settled.get(id))) ?? "");
}

export function lastOwn({ order, settled }: Conversation): Message | undefined {
  return settled.get(order.findLast((id) => isOwn(settled.get(id)) && isHere(settled.get(id))) ?? "");
}

/** Whether a message is on the way things went in the end. */
export function isHere(message: Message | undefined): boolean {
  return message === undefined || message.leftBehindBy === null;
}

/** Whether the last thing said is a question to the user. */
export function isAsking({ order, settled }: Conversation): boolean {
  const last = order.findLast((id) => settled.get(id)?.hidden !== true && isHere(settled.get(id)));
  return (settled.get(last ?? "")?.question ?? null) !== null;
}
