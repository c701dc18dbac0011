import { expect, test } from "vitest";
import { diffLines } from "@/features/chat/diff";

const shown = (before: string, after: string) =>
  diffLines(before, after).map(({ sign, text }) => `${sign}${text}`);

test("lines at both ends that stay are not said to have changed", () => {
  expect(shown("a\nb\nc", "a\nx\ny\nc")).toEqual([" a", "−b", "+x", "+y", " c"]);
});

test("text that is only taken out or put in has one sign", () => {
  expect(shown("a\nb\n", "")).toEqual(["−a", "−b"]);
  expect(shown("", "a")).toEqual(["+a"]);
});

test("a line that is repeated is counted once", () => {
  expect(shown("a\na", "a\na\na")).toEqual([" a", " a", "+a"]);
  expect(shown("same", "same")).toEqual([" same"]);
});
