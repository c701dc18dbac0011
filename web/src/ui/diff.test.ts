import { expect, test } from "vitest";
import { diffLines } from "@/ui/diff";

const shown = (before: string, after: string) =>
  diffLines(before, after).map(({ sign, text }) => `${sign}${text}`);

test("unchanged lines at both ends are context", () => {
  expect(shown("a\nb\nc", "a\nx\ny\nc")).toEqual([" a", "−b", "+x", "+y", " c"]);
});

test("text that is only removed or added has one sign", () => {
  expect(shown("a\nb\n", "")).toEqual(["−a", "−b"]);
  expect(shown("", "a")).toEqual(["+a"]);
});

test("a repeated line is counted once", () => {
  expect(shown("a\na", "a\na\na")).toEqual([" a", " a", "+a"]);
  expect(shown("same", "same")).toEqual([" same"]);
});
