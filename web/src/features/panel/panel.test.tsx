import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import type { Server } from "@/api/server";
import type { PrefixCacheUsage } from "@/api/usage";
import { encodeEvent, fakeGateway, openStream } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const OUTPUTS = "/mnt/user-data/outputs";
const bytes = (text: string) => new TextEncoder().encode(text).buffer as ArrayBuffer;

const NO_REQUESTS = {
  requests: 0,
  prompt_tokens: 0,
  prefix_tokens: 0,
  prefix_fraction: null,
  input_tokens: 0,
  cached_tokens: 0,
  cached_fraction: null,
  breaks: [],
} satisfies PrefixCacheUsage;

function showThread(path: string, server: Partial<Server> = {}, artifacts: readonly string[] = []) {
  const gateway = fakeGateway({
    messagePage: async () => ({ messages: [{ type: "human", id: "m", content: "Hi" }], artifacts }),
  });
  return showPage(gateway, { path, server });
}

test("a file that is named twice in the URL is ignored", async () => {
  showThread(`/threads/t?panel=artifacts&file=${OUTPUTS}/a.md&file=${OUTPUTS}/b.md`);
  expect(await screen.findByText(/No artifacts yet/)).toBeTruthy();
});

test("artifacts are listed and opened, and the URL names the open one", async () => {
  const { paths } = showThread(
    "/threads/t?panel=artifacts",
    { bytes: async () => bytes("# Report\n\nAll **good**.") },
    [`${OUTPUTS}/report.md`],
  );
  await userEvent.click(await screen.findByRole("button", { name: "report.md" }));
  expect((await screen.findByText("good")).tagName).toBe("STRONG");
  expect(paths.at(-1)).toBe("/threads/t?panel=artifacts&file=%2Fmnt%2Fuser-data%2Foutputs%2Freport.md");
  await userEvent.click(screen.getByRole("button", { name: "Back" }));
  expect(await screen.findByRole("button", { name: "report.md" })).toBeTruthy();
});

test("Ctrl+. toggles the panel and the choice is stored", async () => {
  const { saved } = showThread("/threads/t");
  await screen.findByRole("button", { name: "Show panel" });
  await userEvent.keyboard("{Control>}.{/Control}");
  expect(await screen.findByRole("complementary", { name: "Panel" })).toBeTruthy();
  expect(saved()?.panelOpen).toBe(true);
  await userEvent.keyboard("{Control>}.{/Control}");
  expect(screen.queryByRole("complementary", { name: "Panel" })).toBeNull();
  expect(saved()?.panelOpen).toBe(false);
});

test("the panel is resized within its limits", async () => {
  const { saved } = showThread("/threads/t?panel=run");
  const edge = await screen.findByRole("separator", { name: "Panel width" });
  edge.focus();
  await userEvent.keyboard("{ArrowLeft}");
  expect(saved()?.panelWidth).toBe(44);
  await userEvent.keyboard("{ArrowRight>30}");
  expect(saved()?.panelWidth).toBe(28);
});

test("a CSV file is shown as a table", async () => {
  showThread(`/threads/t?panel=files&file=${OUTPUTS}/a.csv`, {
    bytes: async () => bytes('city,"n"\nUlm,1\nRome,2\n'),
  });
  const table = await screen.findByRole("table", { name: "a.csv" });
  expect(
    within(table)
      .getAllByRole("columnheader")
      .map((cell) => cell.textContent),
  ).toEqual(["city", "n"]);
  expect(
    within(table)
      .getAllByRole("cell")
      .map((cell) => cell.textContent),
  ).toEqual(["Ulm", "1", "Rome", "2"]);
  expect(screen.getByText("2 rows, 2 columns")).toBeTruthy();
});

test("a web page is shown in a frame without an origin", async () => {
  showThread(`/threads/t?panel=files&file=${OUTPUTS}/a.html`);
  const frame = await screen.findByTitle("a.html");
  expect(frame.getAttribute("sandbox")).toBe("allow-scripts");
  expect(frame.getAttribute("src")).toBe("/api/threads/t/previews/mnt/user-data/outputs/a.html");
});

test.each([
  ["not text", new Uint8Array([255, 0, 1]).buffer],
  ["too long", new Uint8Array(3 * 1024 * 1024).buffer],
])("a file that is %s has no preview", async (_, content) => {
  showThread(`/threads/t?panel=files&file=${OUTPUTS}/a.csv`, { bytes: async () => content });
  expect(await screen.findByText(/No preview for this file type/)).toBeTruthy();
});

test("folders are expanded and a file in them is opened", async () => {
  const asked: string[] = [];
  const entry = { size: 5, modified_at: "2026-01-01T00:00:00Z" };
  const { paths } = showThread("/threads/t?panel=files", {
    folder: async (_, path) => {
      asked.push(path);
      const root = path === "/mnt/user-data";
      const entries = root
        ? [{ ...entry, name: "outputs", path: OUTPUTS, kind: "folder" as const }]
        : [{ ...entry, name: "a.png", path: `${OUTPUTS}/a.png`, kind: "file" as const }];
      return { path, entries, is_truncated: !root };
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: /a\.png/ }));
  expect(asked).toEqual(["/mnt/user-data", OUTPUTS]);
  expect((await screen.findByRole("img", { name: "a.png" })).getAttribute("src")).toContain("a.png");
  expect(paths.at(-1)).toContain("panel=files&file=");
});

test("a run shows its steps, durations and cost", async () => {
  const at = (second: number) => `2026-01-01T00:00:0${second}Z`;
  const tokens = { calls: 1, input_tokens: 1200, cached_tokens: 0, output_tokens: 80, total_tokens: 1280 };
  showThread("/threads/t?panel=run", {
    features: async () => ({ token_usage: true }),
    runs: async () => [{ run_id: "r", status: "success", created_at: at(0), updated_at: at(5) }],
    runEvents: async () => [
      {
        seq: 1,
        event: "changes",
        created_at: at(2),
        data: {
          messages: [
            { type: "ai", id: "a", tool_calls: [{ id: "c", name: "bash", args: { command: "ls" } }] },
          ],
        },
      },
      {
        seq: 2,
        event: "changes",
        created_at: at(5),
        data: { messages: [{ type: "tool", id: "t", tool_call_id: "c", status: "success" }] },
      },
    ],
    runUsage: async () => ({
      ...tokens,
      cost: { amount: "0.0123", currency: "USD" },
      prefix_cache: NO_REQUESTS,
    }),
    threadUsage: async () => ({
      totals: { ...tokens, cost: null },
      context_usage: { used_tokens: 1280, window_tokens: 2560, fraction: 0.5 },
    }),
  });
  const steps = await screen.findByRole("list", { name: "Steps" });
  const rows = within(steps)
    .getAllByRole("listitem")
    .map((row) => row.textContent);
  expect(rows).toEqual(["Model2 s", "Ran ls3 s"]);
  expect(await screen.findByText("$0.01")).toBeTruthy();
  expect(screen.queryByRole("region", { name: "Prefix cache" })).toBeNull();
  expect(await screen.findByRole("button", { name: "Context 50% full (2.6K tokens)" })).toBeTruthy();
});

test("usage requested before the end of a run is requested again after it", async () => {
  const stream = openStream();
  const tokens = { calls: 1, input_tokens: 1200, cached_tokens: 0, output_tokens: 80, total_tokens: 1280 };
  const requests: string[] = [];
  const gateway = fakeGateway({
    messagePage: async () => ({ messages: [{ type: "human", id: "m", content: "Hi" }] }),
    newestRun: async () => ({ run_id: "r", status: "running", created_at: "", updated_at: "" }),
    joinRun: async () => stream.response,
  });
  const threadUsage = (threadId: string) => {
    requests.push(threadId);
    if (requests.length === 1) return new Promise<never>(() => {});
    const context = { used_tokens: 1280, window_tokens: 2560, fraction: 0.5 };
    return Promise.resolve({ totals: { ...tokens, cost: null }, context_usage: context });
  };
  showPage(gateway, {
    path: "/threads/t",
    server: { threadUsage, features: async () => ({ token_usage: true }) },
  });
  await screen.findByRole("button", { name: "Stop" });
  await vi.waitFor(() => expect(requests).toHaveLength(1));
  stream.write(encodeEvent(1, ["end", null]));
  stream.close();
  expect(await screen.findByRole("button", { name: /Context 50% full/ })).toBeTruthy();
});

function showPrefixCache(usage: Partial<PrefixCacheUsage>) {
  const at = "2026-01-01T00:00:00Z";
  const tokens = {
    calls: 3,
    input_tokens: 9,
    cached_tokens: 0,
    output_tokens: 8,
    total_tokens: 17,
    cost: null,
  };
  showThread("/threads/t?panel=run", {
    features: async () => ({ token_usage: true }),
    runs: async () => [{ run_id: "r", status: "success", created_at: at, updated_at: at }],
    runEvents: async () => [],
    runUsage: async () => ({ ...tokens, prefix_cache: { ...NO_REQUESTS, requests: 3, ...usage } }),
    threadUsage: async () => ({ totals: tokens, context_usage: null }),
  });
  return screen.findByRole("region", { name: "Prefix cache" });
}

test("a run shows how much of its input was reused and what broke the prefix", async () => {
  const found = { caller: "lead_agent", position: null, role: null, name: null };
  const region = await showPrefixCache({
    prefix_fraction: 0.961,
    cached_fraction: 0.81,
    breaks: [
      { ...found, request: 2, segment: "system_prompt", cause: "changed", lost_tokens: 5120 },
      { ...found, request: 3, segment: "tools", cause: "loaded", lost_tokens: 0, name: "wiki_read" },
      {
        ...found,
        request: 4,
        caller: "subagent",
        segment: "message",
        cause: "compacted",
        lost_tokens: 310,
        position: 12,
        role: "tool",
        name: "read_file",
      },
    ],
  });
  const summary =
    "96.1% of input reused · provider reported 81% cached · broken 3 times: system prompt, tools, messages";
  await userEvent.click(within(region).getByText(summary));
  expect(
    within(region)
      .getAllByRole("listitem")
      .map((row) => row.textContent),
  ).toEqual([
    "Request 2: system prompt – changed · 5.1K tokens not covered",
    "Request 3: tools (wiki_read) – loaded by the agent",
    "Request 4 (subagent): message 12 (result of read_file) – compacted · 310 tokens not covered",
  ]);
});

test("a provider that reports no cached tokens is named, and a prefix without a break has no list", async () => {
  const region = await showPrefixCache({ prefix_fraction: null, cached_fraction: 0 });
  expect(region.textContent).toBe(
    "Prefix cache no earlier request known · provider reported no cached tokens",
  );
  expect(within(region).queryByRole("list")).toBeNull();
});
