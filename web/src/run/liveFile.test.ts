import { expect, test } from "vitest";
import { EMPTY_CONVERSATION, NO_RUN } from "@/run/conversation";
import { ContentReader, writingCall } from "@/run/liveFile";
import { emptyMessage } from "@/run/message";

const TEXT = 'A "quoted" line\n\tand \\ back\u00e9 中文 😀 </script>';

/** Read arguments that arrive in pieces of a length. */
function readInPieces(args: string, length: number): string {
  const reader = new ContentReader();
  let text = "";
  for (let at = length; at < args.length + length; at += length) text = reader.read(args.slice(0, at));
  return text;
}

test.each([1, 2, 3, 7, 1000])("content is read in pieces of %i characters", (length) => {
  const args = JSON.stringify({
    description: 'has "content": "no"',
    path: "/a.md",
    content: TEXT,
    append: false,
  });
  expect(readInPieces(args, length)).toBe(TEXT);
  const escaped = args.replace(/[^ -~]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  expect(readInPieces(escaped, length)).toBe(TEXT);
});

test("line breaks that are not escaped are kept", () => {
  expect(new ContentReader().read('{"path": "/a", "content": "one\ntwo')).toBe("one\ntwo");
});

test("every piece is read once, however long the text is", () => {
  const args = JSON.stringify({ content: "line of text\n".repeat(20_000) });
  const reader = new ContentReader();
  const sliced: number[] = [];
  const slice = String.prototype.slice;
  String.prototype.slice = function (this: string, from?: number, to?: number) {
    const part = slice.call(this, from, to);
    sliced.push(part.length);
    return part;
  };
  try {
    for (let at = 100; at <= args.length; at += 100) reader.read(args.substring(0, at));
  } finally {
    String.prototype.slice = slice;
  }
  expect(sliced.reduce((sum, each) => sum + each, 0)).toBeLessThan(args.length + 5000);
});

test("the call that writes a file is found until it has a result", () => {
  const call = { id: "c", index: 0, name: "write_file", args: '{"path": "/a.md", "content": "x' };
  const writing = {
    ...EMPTY_CONVERSATION,
    order: ["m"],
    streaming: new Map([["m", { ...emptyMessage("m", "assistant", 0), toolCalls: [call] }]]),
    run: { ...NO_RUN, phase: "running" as const },
  };
  expect(writingCall(writing)?.id).toBe("c");
  expect(writingCall(writing, "/a.md")?.id).toBe("c");
  expect(writingCall(writing, "/b.md")).toBeNull();
  expect(writingCall({ ...writing, run: NO_RUN })).toBeNull();
  const result = { ...emptyMessage("r", "tool", 0), toolCallId: "c" };
  expect(writingCall({ ...writing, order: ["m", "r"], settled: new Map([["r", result]]) })).toBeNull();
});
