import { expect, test } from "vitest";
import { groupThreads } from "@/features/threads/days";
import type { Thread } from "@/state/threadList";

function thread(id: string, at: Date, pinned = false): Thread {
  return {
    id,
    title: id,
    updatedAt: at.toISOString(),
    status: "idle",
    renamed: false,
    pinned,
    archived: false,
    waitsFor: null,
    projectId: null,
    branchedFrom: null,
  };
}

test("threads are grouped by local day, pinned ones first", () => {
  const now = new Date(2026, 2, 1, 0, 30);
  const threads = [
    thread("now", now),
    thread("midnight", new Date(2026, 2, 1, 0, 0)),
    thread("last night", new Date(2026, 1, 28, 23, 59)),
    thread("two days ago", new Date(2026, 1, 27, 23, 59)),
    thread("long ago", new Date(2020, 1, 1), true),
  ];
  const groups = groupThreads(threads, now).map(({ name, threads: grouped }) => [
    name,
    grouped.map(({ id }) => id),
  ]);
  expect(groups).toEqual([
    ["pinned", ["long ago"]],
    ["today", ["now", "midnight"]],
    ["yesterday", ["last night"]],
    ["earlier", ["two days ago"]],
  ]);
});

test("empty groups are dropped", () => {
  expect(groupThreads([], new Date())).toEqual([]);
});
