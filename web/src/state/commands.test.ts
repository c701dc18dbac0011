import { expect, test } from "vitest";
import { parseCommand } from "@/state/commands";

test.each([
  ["/compact", { name: "compact", rest: "" }],
  ["  /goal  Write a book \n", { name: "goal", rest: "Write a book" }],
  ["/model gpt-5", { name: "model", rest: "gpt-5" }],
  ["/new", { name: "new", rest: "" }],
  ["/newer", null],
  ["see /new", null],
  ["/data-analysis", null],
])("%s is parsed", (text, command) => {
  expect(parseCommand(text)).toEqual(command);
});
