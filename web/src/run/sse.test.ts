import { expect, test } from "vitest";
import { createSseParser, readEvents } from "@/run/sse";
import { all } from "@/testing/gateway";

const WIRE =
  'id: 1\nevent: metadata\ndata: {"run_id":"r"}\n\n: heartbeat\n\nid: 2\nevent: end\ndata: null\n\n';
const EVENTS = [
  { id: "1", event: "metadata", data: '{"run_id":"r"}' },
  { id: "2", event: "end", data: "null" },
];

test("events are read, comments are not", () => {
  expect(createSseParser()(WIRE)).toEqual(EVENTS);
});

test.each(["\r\n", "\r"])("lines may end with %j", (lineEnd) => {
  const parse = createSseParser();
  // The last line end may be half of one; whatever comes next decides.
  expect([...parse(WIRE.replaceAll("\n", lineEnd)), ...parse(":")]).toEqual(EVENTS);
});

test.each(["\n", "\r\n"])("any split gives the same events (line end %j)", (lineEnd) => {
  const text = WIRE.replaceAll("\n", lineEnd);
  for (let cut = 0; cut <= text.length; cut++) {
    const parse = createSseParser();
    expect([...parse(text.slice(0, cut)), ...parse(text.slice(cut))]).toEqual(EVENTS);
  }
});

test("one character at a time gives the same events", () => {
  const parse = createSseParser();
  expect([...WIRE].flatMap((char) => parse(char))).toEqual(EVENTS);
});

test("several data lines are one text, fields may have no space or no value", () => {
  expect(createSseParser()("data:a\ndata: b\ndata\n\n")).toEqual([
    { id: null, event: "message", data: "a\nb\n" },
  ]);
});

test("an event without data and one that never ends are not events", () => {
  expect(createSseParser()("event: x\n\ndata: half")).toEqual([]);
});

test("a byte order mark is no part of the first field", () => {
  expect(createSseParser()("\ufeffdata: x\n\n")).toHaveLength(1);
});

test("characters cut between two arrivals are put together", async () => {
  const bytes = new TextEncoder().encode("data: 鹿🦌\n\n");
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const events = await all(readEvents(body));
  expect(events.map(({ data }) => data)).toEqual(["鹿🦌"]);
});
