import { expect, test } from "vitest";
import { resumeOf } from "@/api/gateway";
import type { WireInterrupt } from "@/api/wire";
import { approvalOf } from "@/run/approval";
import { EMPTY_CONVERSATION, reduce } from "@/run/reduce";
import { asking, call, calling } from "@/testing/tools";

const remove = call("c1", "bash", { command: "rm data" });
const again = call("c2", "bash", { command: "rm data" });
const paused = reduce(EMPTY_CONVERSATION, {
  type: "opened",
  values: { messages: [calling(remove, again)] },
  run: null,
}).settled.get("a-c1");

test("requests are matched with the calls of the message, each call once", () => {
  const approval = approvalOf(asking(remove, again), paused);
  expect(approval?.messageId).toBe("a-c1");
  expect(approval?.requests.map((request) => request.call.id)).toEqual(["c1", "c2"]);
});

test("a request without a known call is accepted", () => {
  const approval = approvalOf(asking(call("c9", "launch", { rocket: "Saturn" })), paused);
  expect(approval?.requests[0]?.call).toMatchObject({ id: "request:0", name: "launch" });
});

test("only allowed decisions are offered", () => {
  const value = {
    action_requests: [{ name: "bash", args: {} }],
    review_configs: [{ action_name: "bash", allowed_decisions: ["reject", "respond", "approve"] }],
  };
  expect(approvalOf([{ value }], paused)?.requests[0]?.allowed).toEqual(["approve", "reject"]);
});

test("the reason is kept unless every call of the tool needs approval", () => {
  const asked = (description?: string) =>
    approvalOf([{ value: { action_requests: [{ name: "bash", args: {}, description }] } }], paused)
      ?.requests[0]?.reason;
  expect(asked("A person has to agree: rockets are dear.")).toBe("A person has to agree: rockets are dear.");
  expect(asked("Tool execution requires approval\n\nTool: bash")).toBeNull();
  expect(asked()).toBeNull();
});

test.each<[string, readonly WireInterrupt[] | null | undefined]>([
  ["nothing", undefined],
  ["null", null],
  ["no question", []],
  ["another question", [{ value: "which one?" }]],
  ["no actions", [{ value: { action_requests: [] } }]],
  ["actions without names", [{ value: { action_requests: [{ args: {} }] } }]],
  ["actions without arguments", [{ value: { action_requests: [{ name: "bash", args: [] }] } }]],
])("%s is not an approval", (_, interrupts) => {
  expect(approvalOf(interrupts, paused)).toBeNull();
});

test("several interrupts are answered by id", () => {
  const [first, second] = [asking(remove)[0], asking(again)[0]];
  const both = [
    { ...first, id: "i1" },
    { ...second, id: "i2" },
  ];
  const approval = approvalOf(both, paused);
  expect(approval?.requests.map((request) => [request.asked, request.call.id])).toEqual([
    ["i1", "c1"],
    ["i2", "c2"],
  ]);
  expect(resumeOf(approval?.requests ?? [], [{ type: "approve" }, { type: "reject" }])).toEqual({
    i1: { decisions: [{ type: "approve" }] },
    i2: { decisions: [{ type: "reject" }] },
  });
});
