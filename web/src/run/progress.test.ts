import { expect, test } from "vitest";
import { addProgress, dropProgress, lastLines, type Progress } from "@/run/progress";

const progressEvent = (callId: unknown, output: unknown) => ({
  type: "tool_progress",
  tool_call_id: callId,
  tool: "bash",
  output,
});

test("output is joined per call", () => {
  const progress = [
    progressEvent("a", "one "),
    progressEvent("b", "x"),
    progressEvent("a", "two"),
  ].reduce<Progress>(addProgress, new Map());
  expect(progress).toEqual(
    new Map([
      ["a", "one two"],
      ["b", "x"],
    ]),
  );
});

test("only the end of long output is kept", () => {
  const long = addProgress(new Map([["a", "x".repeat(8192)]]), progressEvent("a", "end"));
  expect(long.get("a")).toHaveLength(8192);
  expect(long.get("a")?.endsWith("xend")).toBe(true);
});

test.each([
  null,
  "text",
  {},
  { type: "other", tool_call_id: "a", output: "x" },
  progressEvent(1, "x"),
  progressEvent("a", null),
])("%j changes nothing", (event) => {
  const before: Progress = new Map();
  expect(addProgress(before, event)).toBe(before);
});

test("only calls with results are dropped", () => {
  const progress: Progress = new Map([
    ["a", "1"],
    ["b", "2"],
  ]);
  expect(dropProgress(progress, ["a", null, undefined, "c"])).toEqual(new Map([["b", "2"]]));
  expect(dropProgress(progress, [null, "c"])).toBe(progress);
});

test("the last twenty lines are shown", () => {
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
  expect(lastLines(`${lines.join("\n")}\n`)).toBe(lines.slice(10).join("\n"));
});

test("an overwritten line shows its last text", () => {
  expect(lastLines("10 %\r50 %\r100 %\ndone\r\n")).toBe("100 %\ndone");
  expect(lastLines("10 %\r50 %\r")).toBe("50 %");
});
