import { expect, test } from "vitest";
import { emptyMessage } from "@/run/message";
import { reviewOf } from "@/run/review";

const toolMessage = (text: string, failed = false) => ({ ...emptyMessage("t", "tool", 0), text, failed });
const NOTE =
  "Note: a human reviewer replaced this tool call before it ran. The call recorded in your message is the one " +
  "you produced, not the one that executed. Do not re-issue your original call.";

test("an edited call has its arguments and output", () => {
  const text = `${NOTE} Executed instead: bash with arguments {"command": "ls."}.\n\nTool response:\na\nb`;
  expect(reviewOf(toolMessage(text))).toEqual({ type: "edited", args: { command: "ls." }, output: "a\nb" });
});

test("an edited call without output has none", () => {
  const text = `${NOTE} Executed instead: bash with arguments {"command": "true"}.`;
  expect(reviewOf(toolMessage(text))).toMatchObject({ type: "edited", output: "" });
});

test("a rejected call has its reason, if given", () => {
  const reasoned = toolMessage("User rejected the tool call for `bash` with reason: not\nnow", true);
  expect(reviewOf(reasoned)).toEqual({ type: "rejected", reason: "not\nnow" });
  const plain = toolMessage(
    "User rejected the tool call for `bash` with id c1. The tool was not executed.",
    true,
  );
  expect(reviewOf(plain)).toEqual({ type: "rejected", reason: "" });
});

test.each([
  ["output of its own", toolMessage("done")],
  ["the words of a refusal, printed", toolMessage("User rejected the tool call for `bash`")],
  [
    "the note on a change, further down",
    toolMessage(`log:\n${NOTE} Executed instead: bash with arguments {}.`),
  ],
  ["an error of its own", toolMessage("no such file", true)],
  ["arguments that are no JSON", toolMessage(`${NOTE} Executed instead: bash with arguments {broken}.`)],
])("%s is not a review", (_, message) => {
  expect(reviewOf(message)).toBeNull();
});
