import { expect, test } from "vitest";
import {
  type Attachments,
  faultOf,
  isHeld,
  isSending,
  reduceAttachments,
  uploadedFiles,
} from "@/features/chat/composer/attachments";

const limits = { max_files: 2, max_file_size: 100, max_total_size: 150 };
const file = { filename: "a.csv", size: 60, path: "/mnt/user-data/uploads/a.csv" };

const first = { type: "added", id: "1", threadId: "t", name: "a.csv", size: 60, fault: null } as const;
const added = reduceAttachments([], first);
const kept = reduceAttachments(added, { type: "uploaded", id: "1", file });

test("a file is uploaded and cleared with the message", () => {
  expect(isSending(added)).toBe(true);
  expect(uploadedFiles(kept)).toEqual([file]);
  expect(reduceAttachments(kept, { type: "sent", threadId: "t" })).toEqual([]);
  expect(reduceAttachments(kept, { type: "sent", threadId: "u" })).toEqual(kept);
});

test("a failed file stays until it is removed", () => {
  const failed = reduceAttachments(added, { type: "failed", id: "1", fault: "refused", reason: "no" });
  expect(reduceAttachments(failed, { type: "sent", threadId: "t" })).toEqual(failed);
  expect(isSending(failed)).toBe(false);
  expect(reduceAttachments(failed, { type: "removed", id: "1" })).toEqual([]);
});

test.each<[number, Attachments, string | null]>([
  [101, [], "too large"],
  [100, [], null],
  [91, added, "too large together"],
  [90, added, null],
  [1, [...added, ...added], "too many"],
])("%i more bytes are checked before the upload", (size, others, fault) => {
  expect(faultOf(size, others, limits)).toBe(fault);
});

test("without limits the server checks the upload", () => {
  expect(faultOf(10 ** 9, [], null)).toBeNull();
});

test("held files are checked when the limits become known", () => {
  const sizes = [60, 101, 91, 80];
  const held = sizes.reduce<Attachments>(
    (all, size) => reduceAttachments(all, { ...first, id: `${size}`, size, threadId: null }),
    [],
  );
  const checked = reduceAttachments(held, { type: "limited", limits });
  const faults = checked.map(({ state }) => (state.phase === "failed" ? state.fault : state.phase));
  expect(faults).toEqual(["held", "too large", "too large together", "held"]);
  expect(reduceAttachments(added, { type: "limited", limits })).toEqual(added);
});

test("files of a new thread are held until it begins", () => {
  const held = reduceAttachments([], { ...first, threadId: null });
  expect(held.map(isHeld)).toEqual([true]);
  expect(isSending(held)).toBe(false);
  const begun = reduceAttachments(held, { type: "begun", threadId: "t" });
  expect(begun).toEqual(added);
});
