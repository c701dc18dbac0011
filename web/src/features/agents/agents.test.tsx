import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Agent } from "@/api/agents";
import { ApiError } from "@/api/http";
import type { Tool } from "@/api/tools";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const ADA: Agent = {
  name: "ada",
  description: "Counts",
  model: null,
  tool_groups: ["web"],
  skills: null,
  starters: ["Count to ten", "Count the files in my workspace"],
  soul: "You count.",
};
const TOOL = {
  description: "",
  server: null,
  brings_untrusted: false,
  reaches_out: false,
  needs_approval: false,
};
const TOOLS: readonly Tool[] = [
  { ...TOOL, name: "bash", source: "builtin", group: "bash" },
  { ...TOOL, name: "read_file", source: "builtin", group: "file:read" },
  { ...TOOL, name: "web_search", source: "web", group: "web" },
  { ...TOOL, name: "present_files", source: "builtin", group: null },
];
const SKILL = { description: "", license: null, category: "public", editable: false } as const;

test("agents are listed and a chat with one can be started", async () => {
  const { paths } = showPage(fakeGateway(), { path: "/agents", server: { agents: async () => [ADA] } });
  expect((await screen.findByRole("link", { name: "ada" })).getAttribute("href")).toBe("/agents/ada");
  expect(screen.getByText("Counts")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Chat" }));
  expect(paths).toEqual(["/"]);
  expect((await screen.findByTitle("Chatting with ada")).textContent).toBe("ada");
});

test("an agent has its own start page with its own starters", async () => {
  showPage(fakeGateway(), { path: "/agents", server: { agents: async () => [ADA], agent: async () => ADA } });
  await userEvent.click(await screen.findByRole("button", { name: "Chat" }));
  expect(await screen.findByRole("heading", { level: 2, name: "ada" })).toBeTruthy();
  expect(await screen.findByText("Counts")).toBeTruthy();
  expect(screen.queryByText("What would you like to do?")).toBeNull();
  const starters = await screen.findByRole("list", { name: "Examples of this agent" });
  expect(within(starters).getAllByRole("button")).toHaveLength(2);
});

test("a conversation that creates an agent begins with a question and three examples", async () => {
  showPage(fakeGateway(), { path: "/agents", server: { agents: async () => [ADA] } });
  await userEvent.click(await screen.findByRole("button", { name: "Create with chat" }));
  expect(await screen.findByRole("heading", { name: "Let’s design your agent" })).toBeTruthy();
  expect(screen.getByText(/What should it do for you/)).toBeTruthy();
  expect(within(await screen.findByRole("list", { name: "Examples" })).getAllByRole("button")).toHaveLength(
    3,
  );
});

test("tools and skills of an agent are chosen with ticks", async () => {
  const saved: Agent[] = [];
  showPage(fakeGateway(), {
    path: "/agents/ada",
    server: {
      agent: async () => ADA,
      tools: async () => TOOLS,
      skills: async () => ({
        skills: [
          { ...SKILL, name: "charts", enabled: true },
          { ...SKILL, name: "slides", enabled: false },
        ],
      }),
      updateAgent: async (agent) => {
        saved.push(agent);
        return agent;
      },
    },
  });
  expect(
    (await screen.findByRole<HTMLInputElement>("checkbox", { name: /Search and read the web/ })).checked,
  ).toBe(true);
  await userEvent.click(await screen.findByRole("checkbox", { name: /Run commands/ }));
  await userEvent.click(screen.getByRole("checkbox", { name: "All skills that are turned on" }));
  await userEvent.click(screen.getByRole("checkbox", { name: /slides/ }));
  const starters = screen.getByRole("textbox", { name: "Example messages" });
  await userEvent.clear(starters);
  await userEvent.type(starters, "One{Enter}{Enter}Two");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  expect(saved).toEqual([
    { ...ADA, tool_groups: ["web", "bash"], skills: ["charts", "slides"], starters: ["One", "Two"] },
  ]);
  await userEvent.click(screen.getByRole("checkbox", { name: "All tools" }));
  expect(screen.queryByRole("checkbox", { name: /Run commands/ })).toBeNull();
});

test("a new agent needs a valid and unused name", async () => {
  const made: Agent[] = [];
  showPage(fakeGateway(), {
    path: "/agents/_new",
    server: {
      isAgentNameFree: async (name) => name !== "ada",
      createAgent: async (agent) => {
        made.push(agent);
        return agent;
      },
      agent: async () => ({ ...ADA, name: "bob" }),
    },
  });
  const name = await screen.findByRole("textbox", { name: "Name" });
  await userEvent.type(name, "a b");
  expect(screen.getByText(/1 to 64 letters/)).toBeTruthy();
  await userEvent.clear(name);
  await userEvent.type(name, "ada");
  expect(await screen.findByText("That name is taken")).toBeTruthy();
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Create" }).disabled).toBe(true);
  await userEvent.clear(name);
  await userEvent.type(name, "bob");
  await userEvent.click(screen.getByRole("button", { name: "Create" }));
  expect(made).toEqual([
    { name: "bob", description: "", model: null, tool_groups: null, skills: null, starters: [], soul: "" },
  ]);
  expect(await screen.findByRole("heading", { level: 1, name: "bob" })).toBeTruthy();
});

test("a rejected change shows the reason and is kept", async () => {
  showPage(fakeGateway(), {
    path: "/agents/ada",
    server: {
      agent: async () => ADA,
      updateAgent: async () => Promise.reject(new ApiError("InvalidRequest", 422, "no such tool group")),
    },
  });
  const description = await screen.findByRole<HTMLInputElement>("textbox", { name: "Description" });
  await userEvent.type(description, " well");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  expect((await screen.findByRole("alert")).textContent).toContain("No such tool group.");
  expect(description.value).toBe("Counts well");
});

test("deleting an agent needs a confirmation", async () => {
  const deleted: string[] = [];
  showPage(fakeGateway(), {
    path: "/agents/ada",
    server: { agent: async () => ADA, deleteAgent: async (name) => void deleted.push(name) },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Delete ada" }));
  expect(deleted).toEqual([]);
  await userEvent.click(screen.getByRole("button", { name: "Delete" }));
  expect(await screen.findByText(/No custom agents yet/)).toBeTruthy();
  expect(deleted).toEqual(["ada"]);
});
