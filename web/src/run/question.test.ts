import { expect, test } from "vitest";
import { questionOf } from "@/run/question";

const asked = {
  version: 1,
  kind: "human_input_request",
  request_id: "r",
  tool_call_id: "c",
  clarification_type: "approach_choice",
  question: "Which one?",
  context: "Both would do.",
  input_mode: "choice_with_other",
  options: [{ id: "a", label: "The first", value: "first" }],
};

test("a question is parsed with context and options", () => {
  expect(questionOf({ human_input: asked })).toEqual({
    text: "Which one?",
    context: "Both would do.",
    options: [{ id: "a", label: "The first", value: "first" }],
  });
});

test("a question needs neither context nor options", () => {
  const { context: _, options: __, ...bare } = asked;
  const question = { text: "Which one?", context: "", options: [] };
  expect(questionOf({ human_input: { ...bare, input_mode: "free_text" } })).toEqual(question);
  expect(questionOf({ human_input: { ...asked, context: null, options: [] } })).toEqual(question);
});

test.each([
  ["no artifact", undefined],
  ["an artifact of another kind", { rows: [] }],
  ["a text", "human_input"],
  ["nothing inside", { human_input: null }],
  ["another version", { human_input: { ...asked, version: 2 } }],
  ["another kind", { human_input: { ...asked, kind: "form" } }],
  ["an unknown way to answer", { human_input: { ...asked, input_mode: "slider" } }],
  ["an empty question", { human_input: { ...asked, question: " " } }],
  ["a question that is no text", { human_input: { ...asked, question: 7 } }],
  ["a context that is no text", { human_input: { ...asked, context: {} } }],
  ["options that are no list", { human_input: { ...asked, options: "first" } }],
  ["an option without a value", { human_input: { ...asked, options: [{ id: "a", label: "A" }] } }],
])("%s is not a question", (_, artifact) => {
  expect(questionOf(artifact)).toBeNull();
});
