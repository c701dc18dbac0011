import { expect, test } from "vitest";
import { applyTaskEvent, type SubagentTasks } from "@/run/subagentTasks";

const about = { task_id: "c1", description: "Read the report" };

function tasksOf(...events: readonly unknown[]): SubagentTasks {
  return events.reduce<SubagentTasks>(
    (subagentTasks, event, at) => applyTaskEvent(subagentTasks, event, at),
    new Map(),
  );
}

test("a task is tracked from queued to its end", () => {
  const subagentTasks = tasksOf(
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
  expect(subagentTasks.get("c1")).toEqual({
    state: "done",
    description: "Read the report",
    agent: "general-purpose",
    steps: [
      { kind: "toolCall", text: "read_file /mnt/a.txt\nbash echo one\nverify_citations" },
      { kind: "text", text: "It says hello." },
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
])("%s ends a task as %s", (type, state) => {
  expect(tasksOf({ type, ...about, error: "no" }).get("c1")?.state).toBe(state);
});

test("a task that reached its limit is not done", () => {
  const end = { type: "task_completed", ...about, result: "Half." };
  expect(tasksOf({ ...end, stop_reason: "turn_capped" }).get("c1")?.state).toBe("capped");
  expect(tasksOf({ ...end, stop_reason: null }).get("c1")?.state).toBe("done");
});

test("a restarted task has only the steps of its last attempt", () => {
  const taskMessage = (content: string) => ({
    type: "task_running",
    ...about,
    message: { type: "ai", content },
  });
  const subagentTasks = tasksOf(
    { type: "task_started", ...about, subagent_type: "bash" },
    taskMessage("First."),
    { type: "task_cancelled", ...about, error: "the run was stopped" },
    { type: "task_started", ...about, subagent_type: "bash" },
    taskMessage("Second."),
  );
  expect(subagentTasks.get("c1")).toMatchObject({
    state: "running",
    steps: [{ kind: "text", text: "Second." }],
    startedAt: 3,
  });
});

test("failed items of a batch are counted", () => {
  const outcomes = { completed: 90, capped: 5, failed: 3, skipped: 2 };
  const subagentTasks = tasksOf({ type: "batch_completed", ...about, total: 100, done: 100, outcomes });
  expect(subagentTasks.get("c1")).toMatchObject({
    state: "done",
    progress: { done: 100, total: 100, failed: 5 },
  });
});

test("a batch shows its completed items", () => {
  const batch = { ...about, total: 1000, usage: { total_tokens: 7 } };
  const subagentTasks = tasksOf(
    { type: "batch_started", ...batch, done: 0 },
    { type: "batch_progress", ...batch, done: 120 },
  );
  expect(subagentTasks.get("c1")).toMatchObject({
    state: "running",
    tokens: 7,
    progress: { done: 120, total: 1000, failed: 0 },
  });
});

test("unrelated events are ignored", () => {
  const subagentTasks: SubagentTasks = new Map();
  expect(applyTaskEvent(subagentTasks, { type: "tool_progress", tool_call_id: "c1", output: "x" }, 0)).toBe(
    subagentTasks,
  );
  expect(applyTaskEvent(subagentTasks, { type: "task_unheard_of", ...about }, 0)).toBe(subagentTasks);
  expect(applyTaskEvent(subagentTasks, "text", 0)).toBe(subagentTasks);
});
