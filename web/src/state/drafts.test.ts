import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { keepDrafts, readDrafts } from "@/state/drafts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  localStorage.clear();
});

test("drafts are read again after a reload, without empty ones", () => {
  let drafts = new Map<string | null, string>();
  const onChange = keepDrafts(localStorage, () => drafts);
  drafts = new Map([
    [null, "new"],
    ["t", "old"],
    ["u", ""],
  ]);
  onChange();
  onChange();
  vi.runAllTimers();
  expect([...readDrafts(localStorage)]).toEqual([
    [null, "new"],
    ["t", "old"],
  ]);
});

test.each(["", "[]", "3", '{"t": 1}', "{"])("%s in the storage is no draft", (stored) => {
  localStorage.setItem("deerflow.drafts", stored);
  expect(readDrafts(localStorage).size).toBe(0);
});
