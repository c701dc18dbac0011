/** What subagents do, as the events of their tasks tell it, by the id of the call that gave them work. */

import type { WireMessage } from "@/api/wire";
import { isRecord } from "@/run/json";
import { textOf } from "@/run/message";

export type LaneState = "queued" | "running" | "done" | "failed" | "cancelled";

export interface LaneStep {
  readonly kind: "said" | "used";
  readonly text: string;
}

export interface Lane {
  readonly state: LaneState;
  readonly description: string;
  readonly agent: string;
  readonly steps: readonly LaneStep[];
  readonly tokens: number;
  readonly startedAt: number | null;
  readonly durationMs: number | null;
  /** How many items of a batch are done, and how many there are; null: it is one task. */
  readonly progress: { readonly done: number; readonly total: number } | null;
}

export type Lanes = ReadonlyMap<string, Lane>;

const STATES: Readonly<Record<string, LaneState>> = {
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
const KEPT_STEPS = 200;
const EMPTY: Lane = {
  state: "queued",
  description: "",
  agent: "",
  steps: [],
  tokens: 0,
  startedAt: null,
  durationMs: null,
  progress: null,
};

/** The lanes with what a custom event adds to them; other events of that name are none of their business. */
export function addLane(lanes: Lanes, event: unknown, at: number): Lanes {
  if (!isRecord(event) || typeof event.type !== "string" || typeof event.task_id !== "string") return lanes;
  const state = STATES[event.type];
  if (state === undefined) return lanes;
  const lane = lanes.get(event.task_id) ?? EMPTY;
  const { description, subagent_type: agent, duration_s: seconds, usage, message, done, total } = event;
  const tokens = isRecord(usage) ? usage.total_tokens : null;
  const step = isRecord(message) ? stepOf(message as unknown as WireMessage) : null;
  return new Map(lanes).set(event.task_id, {
    state,
    description: typeof description === "string" ? description : lane.description,
    agent: typeof agent === "string" ? agent : lane.agent,
    steps: step === null ? lane.steps : [...lane.steps, step].slice(-KEPT_STEPS),
    tokens: typeof tokens === "number" ? tokens : lane.tokens,
    startedAt: lane.startedAt ?? (event.type === "task_started" ? at : null),
    durationMs: typeof seconds === "number" ? seconds * 1000 : lane.durationMs,
    progress: typeof done === "number" && typeof total === "number" ? { done, total } : lane.progress,
  });
}

/** What a message of a subagent does, in one line; results of its tools are left to it. */
function stepOf(message: WireMessage): LaneStep | null {
  if (message.type !== "ai") return null;
  const names = (message.tool_calls ?? []).map((call) => call.name);
  if (names.length > 0) return { kind: "used", text: names.join(", ") };
  const text = textOf(message.content).trim();
  return text === "" ? null : { kind: "said", text };
}
