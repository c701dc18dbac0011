import { expect, test } from "vitest";
import { emptyMessage } from "@/run/message";
import { reviewOf } from "@/run/review";

const said = (text: string, failed = false) => ({ ...emptyMessage("t", "tool", 0), text, failed });
const NOTE =
  "Note: a human reviewer replaced this tool call before it ran. The call recorded in your message is the one " +
  "you produced, not the one that executed. Do not re-issue your original call.";

test("a call that was replaced says what was run and what came of it", () => {
  const text = `${NOTE} Executed instead: bash with arguments {"command": "ls."}.\n\nTool response:\na\nb`;
  expect(reviewOf(said(text))).toEqual({ type: "edited", args: { command: "ls." }, output: "a\nb" });
});

test("a call that was replaced and said nothing has no output", () => {
  const text = `${NOTE} Executed instead: bash with arguments {"command": "true"}.`;
  expect(reviewOf(said(text))).toMatchObject({ type: "edited", output: "" });
});

test("a call that was refused says why, if that was said", () => {
  const reasoned = said("User rejected the tool call for `bash` with reason: not\nnow", true);
  expect(reviewOf(reasoned)).toEqual({ type: "rejected", reason: "not\nnow" });
  const plain = said("User rejected the tool call for `bash` with id c1. The tool was not executed.", true);
  expect(reviewOf(plain)).toEqual({ type: "rejected", reason: "" });
});

test.each([
  ["output of its own", said("done")],
  ["the words of a refusal, printed", said("User rejected the tool call for `bash`")],
  ["the note on a change, further down", said(`log:\n${NOTE} Executed instead: bash with arguments {}.`)],
  ["an error of its own", said("no such file", true)],
  ["arguments that are no JSON", said(`${NOTE} Executed instead: bash with arguments {broken}.`)],
])("%s is no review", (_, message) => {
  expect(reviewOf(message)).toBeNull();
});
