import { expect, test } from "vitest";
import type { WireMessage } from "@/api/wire";
import { foldsOf, shownIds, turnsOf } from "@/features/chat/turns";
import { type Conversation, EMPTY_CONVERSATION, reduce } from "@/run/reduce";

const reminder: WireMessage = {
  type: "human",
  id: "reminder",
  content: "mind the list",
  additional_kwargs: { hide_from_ui: true },
};

function opened(...messages: readonly WireMessage[]): Conversation {
  return reduce(EMPTY_CONVERSATION, { type: "opened", values: { messages }, run: null });
}

function human(id: string, content: string): WireMessage {
  return { type: "human", id, content };
}

function asks(callId: string): readonly WireMessage[] {
  const human_input = {
    version: 1,
    kind: "human_input_request",
    question: "Which?",
    input_mode: "free_text",
    options: [],
  };
  return [
    { type: "ai", id: `a-${callId}`, tool_calls: [{ id: callId, name: "ask_clarification", args: {} }] },
    { type: "tool", id: `t-${callId}`, tool_call_id: callId, content: "Which?", artifact: { human_input } },
  ];
}

function plans(callId: string, content: string, status: "success" | "error" = "success"): WireMessage[] {
  const args = { todos: [{ content, status: "pending" }] };
  return [
    { type: "ai", id: `a-${callId}`, tool_calls: [{ id: callId, name: "write_todos", args }] },
    { type: "tool", id: `t-${callId}`, tool_call_id: callId, content: "ok", status },
  ];
}

/** Return the to-do lists by call. */
function lists(conversation: Conversation): [string, string[]][] {
  const { shown } = turnsOf(conversation).checklists;
  return [...shown].map(([callId, todos]) => [callId, todos.map(({ content }) => content)]);
}

test("a question is open until the user replies", () => {
  expect(turnsOf(opened(human("h", "go"), ...asks("c"))).replies).toEqual(new Map());
  expect(turnsOf(opened(...asks("c"), human("h", "this"), human("h2", "and that"))).replies).toEqual(
    new Map([["c", "this"]]),
  );
});

test("a hidden message does not answer a question", () => {
  expect(turnsOf(opened(...asks("c"), reminder)).replies).toEqual(new Map());
  expect(turnsOf(opened(...asks("c"), reminder, human("h", "this"))).replies).toEqual(
    new Map([["c", "this"]]),
  );
});

test("a question the agent did not wait for is closed", () => {
  const { replies } = turnsOf(opened(...asks("c"), { type: "ai", id: "a", content: "Never mind." }));
  expect(replies).toEqual(new Map([["c", null]]));
});

test("the latest list of a turn is shown at its first call", () => {
  const conversation = opened(
    human("h1", "one"),
    ...plans("c1", "old"),
    ...plans("c2", "new"),
    human("h2", "two"),
    ...plans("c3", "next"),
  );
  expect(lists(conversation)).toEqual([
    ["c1", ["new"]],
    ["c3", ["next"]],
  ]);
  expect(turnsOf(conversation).checklists).toMatchObject({ folded: new Set(["c2"]), current: "c3" });
});

test("a hidden message neither splits a turn nor becomes an entry", () => {
  const conversation = opened(human("h", "one"), ...plans("c1", "old"), reminder, ...plans("c2", "new"));
  expect(lists(conversation)).toEqual([["c1", ["new"]]]);
  expect(shownIds(conversation)).toEqual(["h", "a-c1", "a-c2"]);
});

test("a rejected list changes nothing", () => {
  const conversation = opened(...plans("c1", "good"), ...plans("c2", "bad", "error"));
  expect(lists(conversation)).toEqual([["c1", ["good"]]]);
  expect(turnsOf(conversation).checklists.folded).toEqual(new Set());
});

function works(id: string, name = "bash"): readonly WireMessage[] {
  return [
    { type: "ai", id: `a-${id}`, content: "", tool_calls: [{ id, name, args: {} }] },
    { type: "tool", id: `t-${id}`, tool_call_id: id, content: "ok", status: "success" },
  ];
}

function folded(active: boolean, ...messages: readonly WireMessage[]) {
  const state = opened(...messages);
  return [...foldsOf(state, turnsOf(state), active)].map(([first, { ids, steps }]) => [
    first,
    [...ids],
    steps,
  ]);
}

test("finished steps of a turn fold; its plan, files and answer stay", () => {
  const turn = [
    human("h", "go"),
    ...plans("p", "one"),
    ...works("1"),
    ...works("2"),
    ...works("f", "present_files"),
    ...works("3"),
    { type: "ai", id: "done", content: "Done." },
  ];
  expect(folded(false, ...turn)).toEqual([["a-1", ["a-1", "a-2", "a-3"], 3]]);
  expect(folded(true, ...turn)).toEqual([]);
  expect(folded(true, ...turn, human("h2", "more"))).toHaveLength(1);
});

test("a turn with few steps, or without an answer, does not fold", () => {
  const answer: WireMessage = { type: "ai", id: "done", content: "Done." };
  expect(folded(false, human("h", "go"), ...works("1"), ...works("2"), answer)).toEqual([]);
  expect(folded(false, human("h", "go"), ...works("1"), ...works("2"), ...works("3"))).toEqual([]);
});
