import { expect, test } from "vitest";
import type { Thread } from "@/state/threadList";
import { changeOf, watchThreads } from "@/state/watch";

function thread(id: string, change: Partial<Thread> = {}): Thread {
  const flags = { renamed: false, pinned: false, archived: false };
  const about = { title: id, updatedAt: "", waitsFor: null, projectId: null, branchedFrom: null, ...flags };
  return { id, status: "idle", ...about, ...change };
}

test("a thread that finishes out of view is unread until it is seen", () => {
  const running = watchThreads({}, [thread("a", { status: "busy" })], null);
  expect(running).toEqual({ a: "busy" });
  const finished = watchThreads(running, [thread("a")], "b");
  expect(finished).toEqual({ a: "unread" });
  expect(watchThreads(finished, [thread("a")], "a")).toEqual({});
});

test("a thread in view is never unread, and nothing changes without a reason", () => {
  expect(watchThreads({ a: "busy" }, [thread("a")], "a")).toEqual({});
  const marks = { a: "unread" } as const;
  expect(watchThreads(marks, [thread("a"), thread("b")], null)).toBe(marks);
});

test("changes that concern the user are told once", () => {
  const busy = thread("a", { status: "busy" });
  expect(changeOf(busy, thread("a"))).toBe("taskDone");
  expect(changeOf(busy, thread("a", { status: "error" }))).toBe("taskFailed");
  expect(changeOf(busy, thread("a", { status: "interrupted" }))).toBe(null);
  const asks = thread("a", { status: "interrupted", waitsFor: "approval" });
  expect(changeOf(busy, asks)).toBe("needsApproval");
  expect(changeOf(asks, asks)).toBe(null);
  expect(changeOf(undefined, thread("a"))).toBe(null);
  expect(changeOf(thread("a"), thread("a"))).toBe(null);
});
