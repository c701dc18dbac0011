import { expect, test } from "vitest";
import type { Thread } from "@/app/page";
import { groupByDay } from "@/features/threads/days";

function thread(id: string, at: Date): Thread {
  return { id, title: id, updatedAt: at.toISOString(), status: "idle" };
}

test("threads are grouped by the reader's own days", () => {
  const now = new Date(2026, 2, 1, 0, 30);
  const threads = [
    thread("now", now),
    thread("midnight", new Date(2026, 2, 1, 0, 0)),
    thread("last night", new Date(2026, 1, 28, 23, 59)),
    thread("two days ago", new Date(2026, 1, 27, 23, 59)),
  ];
  const groups = groupByDay(threads, now).map(({ day, threads: ofDay }) => [day, ofDay.map(({ id }) => id)]);
  expect(groups).toEqual([
    ["today", ["now", "midnight"]],
    ["yesterday", ["last night"]],
    ["earlier", ["two days ago"]],
  ]);
});

test("days without threads are left out", () => {
  expect(groupByDay([], new Date())).toEqual([]);
});
