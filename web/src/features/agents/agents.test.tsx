import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Agent } from "@/api/agents";
import { ApiError } from "@/api/http";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const ADA: Agent = {
  name: "ada",
  description: "Counts",
  model: null,
  tool_groups: ["web"],
  soul: "You count.",
};

test("agents are listed and a chat with one can be started", async () => {
  const { paths } = showPage(fakeGateway(), { path: "/agents", server: { agents: async () => [ADA] } });
  expect((await screen.findByRole("link", { name: "ada" })).getAttribute("href")).toBe("/agents/ada");
  expect(screen.getByText("Counts")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Chat" }));
  expect(paths).toEqual(["/"]);
  expect((await screen.findByTitle("Chatting with ada")).textContent).toBe("ada");
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
  await userEvent.type(screen.getByRole("textbox", { name: "Tool groups" }), "web, files");
  await userEvent.click(screen.getByRole("button", { name: "Create" }));
  expect(made).toEqual([
    { name: "bob", description: "", model: null, tool_groups: ["web", "files"], soul: "" },
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
