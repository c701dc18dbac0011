import { expect, test } from "vitest";
import type { Skill } from "@/api/skills";
import { completed, fileCandidates, mentionAt, skillCandidates } from "@/features/chat/composer/completion";

const paths = ["/mnt/user-data/outputs/data-report.md", "/mnt/user-data/uploads/report.csv"];

test.each([
  ["look at @rep", 12, { kind: "file", start: 8, query: "rep" }],
  ["@", 1, { kind: "file", start: 0, query: "" }],
  ["mail me@example.org", 19, null],
  ["@report.csv is", 14, null],
  ["/", 1, { kind: "skill", start: 0, query: "" }],
  ["/data-an", 8, { kind: "skill", start: 0, query: "data-an" }],
  ["/data-analysis of sales", 23, null],
  ["see /tmp", 8, null],
  ["/mnt/user-data", 14, null],
])("%j mentions at %i", (text, caret, mention) => {
  expect(mentionAt(text, caret)).toEqual(mention);
});

test("files match by any part of their name, prefix matches first", () => {
  const found = (query: string) => fileCandidates(paths, query).map(({ text }) => text);
  expect(found("REPORT")).toEqual([paths[1], paths[0]]);
  expect(found("csv")).toEqual([paths[1]]);
});

test("enabled skills are found by name", () => {
  const skill = (name: string, enabled = true): Skill => ({
    name,
    description: `About ${name}`,
    license: null,
    category: "public",
    enabled,
    editable: false,
  });
  const skills = [skill("deep-research"), skill("research-plan"), skill("research-off", false)];
  expect(skillCandidates(skills, "research").map(({ text }) => text)).toEqual([
    "/research-plan",
    "/deep-research",
  ]);
  expect(skillCandidates(skills, "")).toHaveLength(2);
});

test("a mention becomes the path and the caret moves behind it", () => {
  const [text, caret] = completed("sum @rep up", 8, { kind: "file", start: 4, query: "rep" }, paths[1] ?? "");
  expect(text).toBe("sum /mnt/user-data/uploads/report.csv up");
  expect(text.slice(caret)).toBe("up");
});
