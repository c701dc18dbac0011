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

test("two changed lines are shown apart", () => {
  expect(shown("a\nb\nc\nd\ne", "a\nB\nc\nD\ne")).toEqual([" a", "−b", "+B", " c", "−d", "+D", " e"]);
});

test("long texts without common lines are replaced in bounded time", () => {
  const lines = (prefix: string) => Array.from({ length: 20_000 }, (_, index) => `${prefix}${index}`);
  const started = performance.now();
  const diff = diffLines(lines("a").join("\n"), lines("b").join("\n"));
  expect(performance.now() - started).toBeLessThan(5000);
  expect(diff).toHaveLength(40_000);
});
