/** State and events of a conversation. */

import type { MessagePage } from "@/api/messagePage";
import type { QueuedMessage } from "@/api/queuedMessage";
import type { SentFile } from "@/api/sentFiles";
import type { Frame, WireRun } from "@/api/wire";
import type { Approval } from "@/run/approval";
import { isOwn, type Message } from "@/run/message";
import type { Progress } from "@/run/progress";
import type { SubagentTasks } from "@/run/subagentTasks";

export type Phase = "idle" | "starting" | "running" | "done" | "stopped" | "failed";

export interface RunError {
  readonly name: string;
  readonly message: string;
}

export interface Run {
  readonly id: string | null;
  readonly phase: Phase;
  /** Started in plan mode. */
  readonly planMode: boolean;
  /** Started with subagents. */
  readonly subagents: boolean;
  /** Starts at an earlier checkpoint and has not reported what it supersedes. */
  readonly branches: boolean;
  readonly lastSeq: number;
  /** The stream is connected; otherwise it is reconnecting. */
  readonly connected: boolean;
  readonly stopping: boolean;
  readonly error: RunError | null;
  /** Name of the model it was started with, if known. */
  readonly model: string | null;
  /** Time it was started at, if known (ms). */
  readonly startedAt: number | null;
  /** The model is called again after a failure. */
  readonly retry: ModelRetry | null;
}

export interface ModelRetry {
  /** The attempt that comes next. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly reason: string;
}

/** The messages before the loaded ones. */
export interface Earlier {
  /** Cursor; null if there are none. */
  readonly before: string | null;
  readonly phase: "idle" | "loading" | "failed";
}

export interface Conversation {
  readonly order: readonly string[];
  readonly settled: ReadonlyMap<string, Message>;
  readonly streaming: ReadonlyMap<string, Message>;
  /** User messages that failed to send. */
  readonly unsent: ReadonlySet<string>;
  readonly title: string | null;
  readonly earlier: Earlier;
  /** Runs rewound to show the version they superseded. */
  readonly rewoundRuns: ReadonlySet<string>;
  /** Queued user messages. */
  readonly queued: readonly QueuedMessage[];
  /** Pending approval. */
  readonly approval: Approval | null;
  /** Live tool output. */
  readonly progress: Progress;
  /** Subagent tasks by call id. */
  readonly subagentTasks: SubagentTasks;
  /** Virtual paths of presented files. */
  readonly artifacts: readonly string[];
  readonly run: Run;
}

export type RunEvent =
  | {
      readonly type: "opened";
      readonly values: MessagePage;
      readonly run: WireRun | null;
      readonly queued?: readonly QueuedMessage[];
    }
  | { readonly type: "earlierRequested" }
  | { readonly type: "earlierLoaded"; readonly page: MessagePage }
  | { readonly type: "earlierFailed" }
  | {
      readonly type: "sent";
      readonly messageId: string;
      readonly text: string;
      readonly files?: readonly SentFile[];
      readonly planMode?: boolean;
      readonly subagents?: boolean;
      readonly model?: string | null;
      /** Ids kept if the message branches. */
      readonly keeps?: readonly string[];
      readonly at: number;
    }
  /** A response is regenerated; `keeps` are the ids before it. */
  | {
      readonly type: "regenerated";
      readonly keeps: readonly string[];
      readonly model?: string | null;
      readonly at?: number;
    }
  | { readonly type: "queued"; readonly queued: QueuedMessage }
  | { readonly type: "queueAccepted"; readonly messageId: string; readonly runId: string }
  | { readonly type: "dequeued"; readonly messageId: string }
  /** Subagent events of an earlier run. */
  | { readonly type: "subagentEventsLoaded"; readonly events: readonly unknown[] }
  | { readonly type: "versionSelected"; readonly rewoundRuns: ReadonlySet<string> }
  | { readonly type: "decided"; readonly model?: string | null; readonly at?: number }
  | { readonly type: "runJoined"; readonly runId: string }
  | { readonly type: "frameReceived"; readonly seq: number; readonly at: number; readonly frame: Frame }
  | { readonly type: "disconnected" }
  | { readonly type: "reconnected" }
  | { readonly type: "stopping" }
  | { readonly type: "streamFailed"; readonly error: RunError };

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
  model: null,
  startedAt: null,
  retry: null,
};

/** Return true if the thread exists on the server. */
export function isCreated({ order, run }: Conversation): boolean {
  return run.id !== null || (order.length > 0 && run.phase !== "starting");
}

export const EMPTY_CONVERSATION: Conversation = {
  order: [],
  settled: new Map(),
  streaming: new Map(),
  unsent: new Set(),
  title: null,
  earlier: { before: null, phase: "idle" },
  rewoundRuns: new Set(),
  queued: [],
  approval: null,
  progress: new Map(),
  subagentTasks: new Map(),
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

/** Return true if a message is on the latest branch. */
export function isHere(message: Message | undefined): boolean {
  return message === undefined || message.supersededBy === null;
}

/** Return true if the last message is a question. */
export function isAsking({ order, settled }: Conversation): boolean {
  const last = order.findLast((id) => settled.get(id)?.hidden !== true && isHere(settled.get(id)));
  return (settled.get(last ?? "")?.question ?? null) !== null;
}
