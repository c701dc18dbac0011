/** What subagents do, as the events of their tasks tell it, by the id of the call that gave them work. */

import type { WireMessage } from "@/api/wire";
import { isRecord } from "@/run/json";
import { textOf } from "@/run/message";
import { tellingArgument } from "@/run/telling";

export type LaneState = "queued" | "running" | "done" | "capped" | "failed" | "cancelled";

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
  /** How far a batch is; null: it is one task. */
  readonly progress: Progress | null;
}

export interface Progress {
  readonly done: number;
  readonly total: number;
  /** How many of those that are done did not come to what was wanted. */
  readonly failed: number;
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
/** What begins, begins anew: after a crash the same task is told of once more. */
const BEGINNINGS: readonly string[] = ["task_started", "batch_started"];
const GOOD_ENDS: readonly string[] = ["completed", "capped"];
const KEPT_STEPS = 200;
const LONGEST_STEP = 160;
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
  const begins = BEGINNINGS.includes(event.type);
  const lane = begins ? EMPTY : (lanes.get(event.task_id) ?? EMPTY);
  const { description, subagent_type: agent, duration_s: seconds, usage, message, stop_reason: cap } = event;
  const tokens = isRecord(usage) ? usage.total_tokens : null;
  const step = isRecord(message) ? stepOf(message as unknown as WireMessage) : null;
  return new Map(lanes).set(event.task_id, {
    state: state === "done" && typeof cap === "string" ? "capped" : state,
    description: typeof description === "string" ? description : lane.description,
    agent: typeof agent === "string" ? agent : lane.agent,
    steps: step === null ? lane.steps : [...lane.steps, step].slice(-KEPT_STEPS),
    tokens: typeof tokens === "number" ? tokens : lane.tokens,
    startedAt: begins ? at : lane.startedAt,
    durationMs: typeof seconds === "number" ? seconds * 1000 : lane.durationMs,
    progress: progressOf(event) ?? lane.progress,
  });
}

function progressOf({ done, total, outcomes }: Readonly<Record<string, unknown>>): Progress | null {
  if (typeof done !== "number" || typeof total !== "number") return null;
  const counts = isRecord(outcomes) ? Object.entries(outcomes) : [];
  const bad = counts.filter(([outcome]) => !GOOD_ENDS.includes(outcome));
  return {
    done,
    total,
    failed: bad.reduce((sum, [, count]) => sum + (typeof count === "number" ? count : 0), 0),
  };
}

/** What a message of a subagent does, in one line; results of its tools are left to it. */
function stepOf(message: WireMessage): LaneStep | null {
  if (message.type !== "ai") return null;
  const calls = (message.tool_calls ?? []).map(({ name, args }) => `${name} ${tellingArgument(args)}`.trim());
  if (calls.length > 0) return { kind: "used", text: calls.map(shortened).join("\n") };
  const text = textOf(message.content).trim();
  return text === "" ? null : { kind: "said", text };
}

function shortened(line: string): string {
  return line.length > LONGEST_STEP ? `${line.slice(0, LONGEST_STEP)}…` : line;
}
