/** Subagent tasks by call id, built from task events. */

import { isRecord } from "@/api/json";
import type { WireMessage } from "@/api/wire";
import { textOf } from "@/run/message";
import { summaryArgument } from "@/run/toolSummary";

export type SubagentTaskState = "queued" | "running" | "done" | "capped" | "failed" | "cancelled";

export interface SubagentTaskStep {
  readonly kind: "text" | "toolCall";
  readonly text: string;
}

export interface SubagentTask {
  readonly state: SubagentTaskState;
  readonly description: string;
  readonly agent: string;
  readonly steps: readonly SubagentTaskStep[];
  readonly tokens: number;
  readonly startedAt: number | null;
  readonly durationMs: number | null;
  /** Counts of a batch; null for a single task. */
  readonly progress: BatchCounts | null;
}

export interface BatchCounts {
  readonly done: number;
  readonly total: number;
  /** Completed items that failed. */
  readonly failed: number;
}

export type SubagentTasks = ReadonlyMap<string, SubagentTask>;

const STATES: Readonly<Record<string, SubagentTaskState>> = {
  task_queued: "queued",
  task_started: "running",
  task_running: "running",
  task_completed: "done",
  task_failed: "failed",
  task_timed_out: "failed",
  task_cancelled: "cancelled",
  batch_started: "running",
  batch_progress: "running",
  batch_completed: "done",
  batch_cancelled: "cancelled",
};
/** A start event resets the task, which may be restarted after a crash. */
const BEGINNINGS: readonly string[] = ["task_started", "batch_started"];
const GOOD_ENDS: readonly string[] = ["completed", "capped"];
const KEPT_STEPS = 200;
const LONGEST_STEP = 160;
const EMPTY: SubagentTask = {
  state: "queued",
  description: "",
  agent: "",
  steps: [],
  tokens: 0,
  startedAt: null,
  durationMs: null,
  progress: null,
};

/** Apply a custom event; unrelated events are ignored. */
export function applyTaskEvent(subagentTasks: SubagentTasks, event: unknown, at: number): SubagentTasks {
  if (!isRecord(event) || typeof event.type !== "string" || typeof event.task_id !== "string")
    return subagentTasks;
  const state = STATES[event.type];
  if (state === undefined) return subagentTasks;
  const begins = BEGINNINGS.includes(event.type);
  const task = begins ? EMPTY : (subagentTasks.get(event.task_id) ?? EMPTY);
  const { description, subagent_type: agent, duration_s: seconds, usage, message, stop_reason: cap } = event;
  const tokens = isRecord(usage) ? usage.total_tokens : null;
  const step = isRecord(message) ? stepOf(message as unknown as WireMessage) : null;
  return new Map(subagentTasks).set(event.task_id, {
    state: state === "done" && typeof cap === "string" ? "capped" : state,
    description: typeof description === "string" ? description : task.description,
    agent: typeof agent === "string" ? agent : task.agent,
    steps: step === null ? task.steps : [...task.steps, step].slice(-KEPT_STEPS),
    tokens: typeof tokens === "number" ? tokens : task.tokens,
    startedAt: begins ? at : task.startedAt,
    durationMs: typeof seconds === "number" ? seconds * 1000 : task.durationMs,
    progress: progressOf(event) ?? task.progress,
  });
}

function progressOf({ done, total, outcomes }: Readonly<Record<string, unknown>>): BatchCounts | null {
  if (typeof done !== "number" || typeof total !== "number") return null;
  const counts = isRecord(outcomes) ? Object.entries(outcomes) : [];
  const bad = counts.filter(([outcome]) => !GOOD_ENDS.includes(outcome));
  return {
    done,
    total,
    failed: bad.reduce((sum, [, count]) => sum + (typeof count === "number" ? count : 0), 0),
  };
}

/** Return a step for a subagent message; tool results are skipped. */
function stepOf(message: WireMessage): SubagentTaskStep | null {
  if (message.type !== "ai") return null;
  const calls = (message.tool_calls ?? []).map(({ name, args }) => `${name} ${summaryArgument(args)}`.trim());
  if (calls.length > 0) return { kind: "toolCall", text: calls.map(shortened).join("\n") };
  const text = textOf(message.content).trim();
  return text === "" ? null : { kind: "text", text };
}

function shortened(line: string): string {
  return line.length > LONGEST_STEP ? `${line.slice(0, LONGEST_STEP)}…` : line;
}
