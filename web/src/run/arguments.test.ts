import { expect, test } from "vitest";
import { argumentTexts, editedArguments, labelOf } from "@/run/arguments";

test.each([
  ["to", "To"],
  ["reply_to", "Reply to"],
  ["maxResults", "Max results"],
  ["_", "_"],
])("%s is labelled %s", (name, label) => {
  expect(labelOf(name)).toBe(label);
});

const ARGS = { to: "a@b.c", body: "One\n\nTwo", size: 3, tags: ["x"], draft: false };

test("edited texts keep the types of their arguments", () => {
  const texts = {
    ...argumentTexts(ARGS),
    body: "Three\nFour",
    size: "12",
    tags: '["y", "z"]',
    draft: "true",
  };
  const { args, wrong } = editedArguments(ARGS, texts);
  expect(wrong).toBeNull();
  expect(args).toEqual({ to: "a@b.c", body: "Three\nFour", size: 12, tags: ["y", "z"], draft: true });
});

test.each([
  ["size", "many"],
  ["tags", "{}"],
  ["draft", "3"],
])("%s cannot be %s", (name, text) => {
  expect(editedArguments(ARGS, { ...argumentTexts(ARGS), [name]: text }).wrong).toBe(name);
});
