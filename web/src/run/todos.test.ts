import { expect, test } from "vitest";
import type { ToolCall } from "@/run/message";
import { todosOf } from "@/run/todos";

const todos = [
  { content: "Look", status: "completed" },
  { content: "Leap", status: "pending" },
];

function call(args: ToolCall["args"]): ToolCall {
  return { id: "c", index: 0, name: "write_todos", args };
}

test("a list is parsed from an object and from complete JSON", () => {
  expect(todosOf(call({ todos }))).toEqual(todos);
  expect(todosOf(call(JSON.stringify({ todos })))).toEqual(todos);
  expect(todosOf(call({ todos: [] }))).toEqual([]);
});

test("incomplete JSON is not a list", () => {
  const json = JSON.stringify({ todos });
  for (let length = 0; length < json.length; length++) {
    expect(todosOf(call(json.slice(0, length)))).toBeNull();
  }
});

test.each([
  ["no list", {}],
  ["a text for a list", { todos: "Look" }],
  ["an item that is a text", { todos: ["Look"] }],
  ["an item without a status", { todos: [{ content: "Look" }] }],
  ["an unknown status", { todos: [{ content: "Look", status: "someday" }] }],
  ["null", "null"],
  ["a number", "7"],
])("%s is not a list", (_, args) => {
  expect(todosOf(call(args))).toBeNull();
});
