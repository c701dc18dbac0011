import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ApiError } from "@/api/http";
import type { SandboxInfo } from "@/api/wire";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

function showWith(sandbox: Partial<SandboxInfo>): void {
  const info: SandboxInfo = { tier: "isolated", detail: "", problem: null, remedy: null, ...sandbox };
  showPage(fakeGateway({ sandbox: async () => info }));
}

const UNSAFE = "Commands run on this machine without isolation";

test("a warning is shown when commands run without isolation", async () => {
  showWith({ tier: "host", remedy: "install bubblewrap and set sandbox.allow_host_bash to false" });
  const banner = await screen.findByRole("region", { name: UNSAFE });
  expect(banner.textContent).toContain("The agent can read, change and delete");
  expect(banner.textContent).toContain("Install bubblewrap and set sandbox.allow_host_bash to false.");
});

test("a notice with the remedy is shown when commands are off", async () => {
  showWith({ tier: "none", problem: "bubblewrap was not found", remedy: "run `apt install bubblewrap`" });
  const code = await screen.findByText("apt install bubblewrap");
  expect(code.parentElement?.textContent).toBe(
    "Commands are turned off on this server. Bubblewrap was not found. Run apt install bubblewrap.",
  );
  expect(screen.queryByRole("region", { name: UNSAFE })).toBeNull();
});

test.each([
  ["isolated", "Sandboxed, isolated from this machine"],
  ["container", "Sandboxed in a container"],
] as const)("%s commands are a quiet line in the settings", async (tier, line) => {
  showWith({ tier, detail: "bubblewrap 0.11.0" });
  await userEvent.click(await screen.findByRole("link", { name: "Settings" }));
  await screen.findByRole("heading", { name: "Models" });
  expect(await screen.findByText(line)).toBeTruthy();
  expect(screen.getByText("bubblewrap 0.11.0")).toBeTruthy();
  expect(screen.queryByRole("region", { name: UNSAFE })).toBeNull();
  expect(screen.queryByText(/cannot run commands/)).toBeNull();
});

test("no notice is shown without sandbox status", async () => {
  const sandbox = async () => Promise.reject(new ApiError("NotFound", 404, "no such route"));
  showPage(fakeGateway({ sandbox }));
  await userEvent.click(await screen.findByRole("link", { name: "Settings" }));
  await screen.findByRole("heading", { name: "Models" });
  expect(screen.queryByText("Commands")).toBeNull();
});
