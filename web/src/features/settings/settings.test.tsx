import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { ModelInfo } from "@/api/wire";
import { DEMO_MODEL, fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

test("each model shows its key status, capabilities and how to set a missing key", async () => {
  const real = { ...DEMO_MODEL, scripted: false };
  const models: readonly ModelInfo[] = [
    { ...real, name: "gpt", display_name: "GPT", key: "set", supports_vision: true, supports_thinking: true },
    { ...real, name: "bare", display_name: "Bare", key: "missing" },
    { ...real, name: "near", display_name: "Near", key: "not needed" },
    { ...real, name: "own", display_name: "Own", key: "unknown" },
  ];
  showPage(fakeGateway({ models: async () => ({ models, default: "gpt" }) }), { path: "/settings" });
  expect(await screen.findByText("Key set")).toBeTruthy();
  for (const text of [
    "Default",
    "Vision",
    "Reasoning",
    "Key missing",
    "No key needed",
    "Key status unknown",
  ]) {
    expect(screen.getAllByText(text)).toHaveLength(1);
  }
  expect(screen.getByText("api_key: $NAME")).toBeTruthy();
});
