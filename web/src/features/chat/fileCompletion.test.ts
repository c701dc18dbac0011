import { expect, test } from "vitest";
import { completed, matching, mentionAt } from "@/features/chat/fileCompletion";

const paths = ["/mnt/user-data/outputs/data-report.md", "/mnt/user-data/uploads/report.csv"];

test.each([
  ["look at @rep", 12, { start: 8, query: "rep" }],
  ["@", 1, { start: 0, query: "" }],
  ["mail me@example.org", 19, null],
  ["@report.csv is", 14, null],
])("%j mentions at %i", (text, caret, mention) => {
  expect(mentionAt(text, caret)).toEqual(mention);
});

test("files are found by any part of their name, by its beginning first", () => {
  expect(matching(paths, "REPORT")).toEqual([paths[1], paths[0]]);
  expect(matching(paths, "csv")).toEqual([paths[1]]);
});

test("a mention becomes the path, and the caret stands behind it", () => {
  const [text, caret] = completed("sum @rep up", 8, { start: 4, query: "rep" }, paths[1] ?? "");
  expect(text).toBe("sum /mnt/user-data/uploads/report.csv up");
  expect(text.slice(caret)).toBe("up");
});
