import { expect, test } from "vitest";
import { addLane, type Lanes } from "@/run/lanes";

const about = { task_id: "c1", description: "Read the report" };

function lanesOf(...events: readonly unknown[]): Lanes {
  return events.reduce<Lanes>((lanes, event, at) => addLane(lanes, event, at), new Map());
}

test("a task is told from its waiting to its end", () => {
  const lanes = lanesOf(
    { type: "task_queued", ...about },
    { type: "task_started", ...about, subagent_type: "general-purpose" },
    {
      type: "task_running",
      ...about,
      message: {
        type: "ai",
        tool_calls: [
          { name: "read_file", args: { path: "/mnt/a.txt" } },
          { name: "bash", args: { command: "echo one\necho two" } },
          { name: "verify_citations", args: {} },
        ],
      },
    },
    { type: "task_running", ...about, message: { type: "tool", content: "text" } },
    {
      type: "task_running",
      ...about,
      message: { type: "ai", content: "It says hello." },
      usage: { total_tokens: 42 },
    },
    { type: "task_completed", ...about, result: "It says hello.", duration_s: 1.5 },
  );
  expect(lanes.get("c1")).toEqual({
    state: "done",
    description: "Read the report",
    agent: "general-purpose",
    steps: [
      { kind: "used", text: "read_file /mnt/a.txt\nbash echo one\nverify_citations" },
      { kind: "said", text: "It says hello." },
    ],
    tokens: 42,
    startedAt: 1,
    durationMs: 1500,
    progress: null,
  });
});

test.each([
  ["task_failed", "failed"],
  ["task_timed_out", "failed"],
  ["task_cancelled", "cancelled"],
])("%s ends a lane as %s", (type, state) => {
  expect(lanesOf({ type, ...about, error: "no" }).get("c1")?.state).toBe(state);
});

test("a task that was Limit reached is not told as one that is done", () => {
  const end = { type: "task_completed", ...about, result: "Half." };
  expect(lanesOf({ ...end, stop_reason: "turn_capped" }).get("c1")?.state).toBe("capped");
  expect(lanesOf({ ...end, stop_reason: null }).get("c1")?.state).toBe("done");
});

test("a task that begins again after a crash has the steps of its last try alone", () => {
  const said = (content: string) => ({ type: "task_running", ...about, message: { type: "ai", content } });
  const lanes = lanesOf(
    { type: "task_started", ...about, subagent_type: "bash" },
    said("First."),
    { type: "task_cancelled", ...about, error: "the run was stopped" },
    { type: "task_started", ...about, subagent_type: "bash" },
    said("Second."),
  );
  expect(lanes.get("c1")).toMatchObject({
    state: "running",
    steps: [{ kind: "said", text: "Second." }],
    startedAt: 3,
  });
});

test("what failed in a batch is counted", () => {
  const outcomes = { completed: 90, capped: 5, failed: 3, skipped: 2 };
  const lanes = lanesOf({ type: "batch_completed", ...about, total: 100, done: 100, outcomes });
  expect(lanes.get("c1")).toMatchObject({ state: "done", progress: { done: 100, total: 100, failed: 5 } });
});

test("a batch is told by how many of its items are done", () => {
  const batch = { ...about, total: 1000, usage: { total_tokens: 7 } };
  const lanes = lanesOf(
    { type: "batch_started", ...batch, done: 0 },
    { type: "batch_progress", ...batch, done: 120 },
  );
  expect(lanes.get("c1")).toMatchObject({
    state: "running",
    tokens: 7,
    progress: { done: 120, total: 1000, failed: 0 },
  });
});

test("other reports are none of its business", () => {
  const lanes: Lanes = new Map();
  expect(addLane(lanes, { type: "tool_progress", tool_call_id: "c1", output: "x" }, 0)).toBe(lanes);
  expect(addLane(lanes, { type: "task_unheard_of", ...about }, 0)).toBe(lanes);
  expect(addLane(lanes, "text", 0)).toBe(lanes);
});
