import { expect, test } from "vitest";
import type { LoggedEvent } from "@/api/usage";
import { timelineOf } from "@/features/panel/timeline";
import { call, calling, result } from "@/testing/tools";

const START = "2026-01-01T00:00:00Z";
const RUN = { run_id: "r", status: "success", created_at: START, updated_at: START } as const;

function at(seconds: number, event: string, data: unknown): LoggedEvent {
  return {
    seq: seconds,
    event,
    data,
    created_at: new Date(Date.parse(START) + seconds * 1000).toISOString(),
  };
}

test("a timeline has model turns and tool calls with durations", () => {
  const steps = timelineOf(RUN, [
    at(1, "changes", { messages: [{ type: "human", id: "h", content: "hi" }] }),
    at(3, "changes", { messages: [calling(call("c1", "bash", { command: "ls" }), call("c2", "ls", {}))] }),
    at(4, "changes", { messages: [result("c2", "no", "error")] }),
    at(9, "changes", { messages: [result("c1", "ok")] }),
    at(11, "changes", {
      messages: [{ type: "ai", id: "a", content: "done", usage_metadata: { total_tokens: 7 } }],
    }),
    at(12, "end", null),
  ]);
  expect(
    steps.map(({ kind, call: made, startMs, durationMs, failed, tokens }) => [
      made?.name ?? kind,
      startMs,
      durationMs,
      failed,
      tokens,
    ]),
  ).toEqual([
    ["model", 1000, 2000, false, null],
    ["ls", 3000, 1000, true, null],
    ["bash", 3000, 6000, false, null],
    ["model", 9000, 2000, false, 7],
  ]);
});

test("a task stopped with its run is not a failure", () => {
  const stopped = {
    ...result("c1", "Task cancelled by user.", "error"),
    additional_kwargs: { subagent_status: "cancelled" },
  };
  const steps = timelineOf(RUN, [
    at(1, "changes", { messages: [calling(call("c1", "task", { description: "a part" }))] }),
    at(2, "changes", { messages: [stopped] }),
  ]);
  expect(steps.map(({ kind, failed }) => [kind, failed])).toEqual([
    ["model", false],
    ["tool", false],
  ]);
});

test("errors are steps and damaged events are skipped", () => {
  const steps = timelineOf(RUN, [at(1, "changes", null), at(2, "error", { message: "the model went away" })]);
  expect(steps.map(({ kind, text, failed }) => [kind, text, failed])).toEqual([
    ["error", "the model went away", true],
  ]);
});
