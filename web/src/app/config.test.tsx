import { act, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { ModelsAnswer } from "@/api/wire";
import { DEMO_MODEL, fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

function answer(name: string, problem: string | null = null): ModelsAnswer {
  return { models: [{ ...DEMO_MODEL, name, display_name: name }], default: name, problem };
}

async function returnToWindow(): Promise<void> {
  await act(async () => {
    window.dispatchEvent(new Event("visibilitychange"));
  });
}

test("the model of a changed configuration is named when the user returns to the page", async () => {
  let current = answer("heron");
  showPage(fakeGateway({ models: async () => current }));
  await screen.findByRole("button", { name: /heron/ });
  current = answer("egret");
  await returnToWindow();
  expect(await screen.findByRole("button", { name: /egret/ })).toBeTruthy();
  expect(screen.queryByRole("button", { name: /heron/ })).toBeNull();
  expect(await screen.findByText("Now answering: egret")).toBeTruthy();
});

test("an invalid configuration is shown until it is valid again", async () => {
  let current = answer("heron", "config.yaml:3: models[0].use: is missing");
  showPage(fakeGateway({ models: async () => current }));
  const banner = await screen.findByRole("region", { name: "The configuration is invalid" });
  expect(banner.textContent).toContain("The previous settings are still in use.");
  expect(banner.textContent).toContain("config.yaml:3: models[0].use: is missing");
  current = answer("heron");
  await returnToWindow();
  await screen.findByRole("button", { name: /heron/ });
  expect(screen.queryByRole("region", { name: "The configuration is invalid" })).toBeNull();
});
