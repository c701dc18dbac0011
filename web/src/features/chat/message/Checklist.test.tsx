import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { WireMessage } from "@/api/wire";
import type { TodoStatus } from "@/run/todos";
import { encodeEvent, fakeGateway, openStream, type WireEvent } from "@/testing/gateway";
import { showPage } from "@/testing/page";

function todosWith(...statuses: readonly TodoStatus[]) {
  return { todos: statuses.map((status, index) => ({ content: `Step ${index + 1}`, status })) };
}

function plans(callId: string, args: object): WireMessage {
  return {
    type: "ai",
    id: `a-${callId}`,
    tool_calls: [{ id: callId, name: "write_todos", args: { ...args } }],
  };
}

function done(callId: string, status = "success"): WireMessage {
  return { type: "tool", id: `t-${callId}`, tool_call_id: callId, content: "Updated todo list", status };
}

function piece(callId: string, args: string): WireEvent {
  const chunk = { index: 0, id: callId, name: "", args };
  return [
    "messages",
    [{ type: "AIMessageChunk", id: `a-${callId}`, content: "", tool_call_chunks: [chunk] }, {}],
  ];
}

function begin(callId: string): WireEvent {
  const chunk = { index: 0, id: callId, name: "write_todos", args: "" };
  return [
    "messages",
    [{ type: "AIMessageChunk", id: `a-${callId}`, content: "", tool_call_chunks: [chunk] }, {}],
  ];
}

const list = () => screen.findByRole("list", { name: /^To-do list/ });
const statuses = (within: HTMLElement) =>
  [...within.children].map((item) => item.getAttribute("data-status"));

test("a turn shows one to-do list, the latest, and no tool calls for it", async () => {
  const messages = [
    { type: "human", id: "h", content: "plan" },
    plans("c1", todosWith("in_progress", "pending")),
    done("c1"),
    plans("c2", todosWith("completed", "in_progress")),
    done("c2"),
    { type: "ai", id: "b", content: "There." },
  ];
  showPage(fakeGateway({ messagePage: async () => ({ messages }) }), { path: "/threads/t" });
  const items = await list();
  expect(screen.getAllByRole("list", { name: "To-do list 1 of 2 done" })).toEqual([items]);
  expect(statuses(items)).toEqual(["completed", "in_progress"]);
  expect(within(items).getByRole("img", { name: "Done" })).toBeTruthy();
  expect(within(items).getByRole("img", { name: "In progress" }).getAttribute("class")).not.toContain(
    "breathe",
  );
  expect(screen.queryByRole("button", { name: /write_todos/ })).toBeNull();
  expect(document.querySelectorAll("[data-role=assistant]")).toHaveLength(2);
});

test("the last complete list is shown while a new one streams", async () => {
  const stream = openStream();
  let seq = 0;
  const say = (...events: readonly WireEvent[]) => {
    for (const event of events) stream.write(encodeEvent(++seq, event));
  };
  showPage(fakeGateway({ startRun: async () => stream.response }));
  await userEvent.type(await screen.findByRole("textbox"), "plan{Enter}");

  const first = JSON.stringify(todosWith("in_progress", "pending"));
  say(begin("c1"), piece("c1", first.slice(0, 30)));
  await screen.findByText("To-do list");
  expect(screen.queryByRole("list", { name: /^To-do list/ })).toBeNull();
  say(piece("c1", first.slice(30)));
  const items = await list();
  expect(statuses(items)).toEqual(["in_progress", "pending"]);
  expect(within(items).getByRole("img", { name: "In progress" }).getAttribute("class")).toContain("breathe");

  const second = JSON.stringify(todosWith("completed", "in_progress"));
  say(["changes", { messages: [plans("c1", JSON.parse(first)), done("c1")] }]);
  say(begin("c2"), piece("c2", second.slice(0, 40)));
  await waitFor(() => expect(screen.getAllByText("To-do list")).toHaveLength(1));
  expect(await list()).toBe(items);
  expect(statuses(items)).toEqual(["in_progress", "pending"]);
  say(piece("c2", second.slice(40)));
  await waitFor(() => expect(statuses(items)).toEqual(["completed", "in_progress"]));

  say(["changes", { messages: [plans("c2", JSON.parse(second)), done("c2")] }], ["end", null]);
  await screen.findByText("Response complete");
  expect(await list()).toBe(items);
  expect(screen.getByText("1 of 2 done")).toBeTruthy();
});

test("an incomplete or rejected list is an ordinary tool call", async () => {
  const messages = [
    plans("c1", { todos: "what?" }),
    done("c1"),
    plans("c2", todosWith("pending")),
    done("c2", "error"),
  ];
  showPage(fakeGateway({ messagePage: async () => ({ messages }) }), { path: "/threads/t" });
  expect(await screen.findByRole("button", { name: /^Used\s*write_todos/ })).toBeTruthy();
  expect(screen.getByRole("button", { name: /^Failed to use\s*write_todos/ })).toBeTruthy();
  expect(screen.queryByText("To-do list")).toBeNull();
});

test("the plan of an active run is docked at the composer until the run ends", async () => {
  const stream = openStream();
  showPage(fakeGateway({ startRun: async () => stream.response }));
  await userEvent.type(await screen.findByRole("textbox"), "plan{Enter}");
  const messages = [plans("c1", todosWith("completed", "in_progress", "pending")), done("c1")];
  stream.write(encodeEvent(1, ["changes", { messages }]));
  const dock = within(await screen.findByRole("region", { name: "Plan" }));
  await userEvent.click(dock.getByRole("button", { name: /1\/3\s*Step 2/ }));
  expect(statuses(dock.getByRole("list", { name: "Plan" }))).toEqual(["completed", "in_progress", "pending"]);
  stream.write(encodeEvent(2, ["end", null]));
  await waitFor(() => expect(screen.queryByRole("region", { name: "Plan" })).toBeNull());
  expect(await list()).toBeTruthy();
});
