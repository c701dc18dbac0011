import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ApiError } from "@/api/http";
import type { SandboxInfo } from "@/api/wire";
import { sandboxStrings } from "@/i18n/sandbox";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

function showWith(sandbox: Partial<SandboxInfo>): void {
  const info: SandboxInfo = {
    tier: "isolated",
    network: "none",
    code: null,
    detail: "",
    problem: null,
    remedy: null,
    toolbox: null,
    ...sandbox,
  };
  showPage(fakeGateway({ sandbox: async () => info }));
}

const UNSAFE = "Commands run on this machine without isolation";

test("a warning is shown when commands run without isolation", async () => {
  showWith({ tier: "host", code: "bubblewrap_missing", problem: "bubblewrap was not found" });
  const banner = await screen.findByRole("region", { name: UNSAFE });
  expect(banner.textContent).toContain("The agent can read, change and delete");
  expect(banner.textContent).toContain("Bubblewrap isn’t installed");
});

test("a notice with the remedy is shown when commands are off", async () => {
  showWith({ tier: "none", code: "bubblewrap_missing", problem: "bubblewrap was not found" });
  const code = await screen.findByText("apt install bubblewrap");
  expect(code.parentElement?.textContent).toMatch(
    /^Commands are turned off on this server. Bubblewrap isn’t installed.*Install it \(apt install bubblewrap\)/,
  );
  expect(screen.queryByRole("region", { name: UNSAFE })).toBeNull();
});

test("a problem without a code has a remedy, and its text under Details", async () => {
  showWith({ tier: "none", problem: "the machine is on strike" });
  expect(await screen.findByText("deerflow doctor")).toBeTruthy();
  expect(screen.getByText("the machine is on strike").closest("details")).toBeTruthy();
});

test.each(Object.keys(sandboxStrings.en.problems) as (keyof typeof sandboxStrings.en.problems)[])(
  "%s has its own sentence and remedy in both languages",
  (code) => {
    for (const { problems } of Object.values(sandboxStrings)) {
      const others = Object.entries(problems).filter(([each]) => each !== code);
      expect(others.map(([, { text }]) => text)).not.toContain(problems[code].text);
      expect(problems[code].remedy.length).toBeGreaterThan(4);
    }
  },
);

test("packages that are being installed are shown with their progress", async () => {
  showWith({ toolbox: { status: "building", installed: 12, total: 69 } });
  expect(await screen.findByText(/12 of 69\. Commands that need them wait\./)).toBeTruthy();
});

test("packages that could not be installed lead to the doctor", async () => {
  showWith({ toolbox: { status: "failed", installed: 0, total: 0 } });
  expect(await screen.findByText("deerflow doctor")).toBeTruthy();
});

test.each([
  ["isolated", "Sandboxed: no access to your files"],
  ["container", "Sandboxed in a container"],
] as const)("%s commands are a quiet line in the settings", async (tier, line) => {
  showWith({ tier, detail: "bubblewrap 0.11.0", toolbox: { status: "ready", installed: 0, total: 0 } });
  await userEvent.click(await screen.findByRole("link", { name: "Settings" }));
  await screen.findByRole("heading", { name: "Models" });
  expect(await screen.findByText(line)).toBeTruthy();
  expect(screen.getByText("Commands can’t reach the network.")).toBeTruthy();
  expect(screen.getByText("bubblewrap 0.11.0").closest("details")).toBeTruthy();
  expect(screen.getByText("Installed")).toBeTruthy();
  expect(screen.queryByRole("region", { name: UNSAFE })).toBeNull();
});

test("no notice is shown without sandbox status", async () => {
  const sandbox = async () => Promise.reject(new ApiError("NotFound", 404, "no such route"));
  showPage(fakeGateway({ sandbox }));
  await userEvent.click(await screen.findByRole("link", { name: "Settings" }));
  await screen.findByRole("heading", { name: "Models" });
  expect(screen.queryByText("Commands")).toBeNull();
});
