import { expect, test } from "vitest";
import { MODES, rememberMode, settingsFor } from "@/state/modes";
import { DEMO_MODEL } from "@/testing/gateway";

const able = { ...DEMO_MODEL, supports_thinking: true, supports_reasoning_effort: true };

test("each mode sets its run settings", () => {
  expect(MODES.map((mode) => settingsFor(mode, able))).toEqual([
    { model: "demo", thinking: false, planMode: false, subagents: false, effort: null },
    { model: "demo", thinking: true, planMode: false, subagents: false, effort: "low" },
    { model: "demo", thinking: true, planMode: true, subagents: false, effort: "medium" },
    { model: "demo", thinking: true, planMode: true, subagents: true, effort: "high" },
  ]);
});

test("unsupported settings are not sent to a model", () => {
  expect(settingsFor("ultra", DEMO_MODEL)).toMatchObject({ thinking: null, effort: null, planMode: true });
});

test("the mode of a thread is stored and the oldest entry is dropped", () => {
  const many = Object.fromEntries(Array.from({ length: 250 }, (_, index) => [`t${index}`, "pro" as const]));
  const modes = rememberMode(many, "new", "flash");
  expect(Object.keys(modes)).toHaveLength(200);
  expect(modes.new).toBe("flash");
  expect(modes.t0).toBeUndefined();
});
