import { expect, test } from "vitest";
import { createSseParser, readEvents } from "@/run/sse";
import { all } from "@/testing/gateway";

const WIRE =
  'id: 1\nevent: metadata\ndata: {"run_id":"r"}\n\n: heartbeat\n\nid: 2\nevent: end\ndata: null\n\n';
const EVENTS = [
  { id: "1", event: "metadata", data: '{"run_id":"r"}' },
  { id: "2", event: "end", data: "null" },
];

test("events are parsed and comments are skipped", () => {
  expect(createSseParser()(WIRE)).toEqual(EVENTS);
});

test.each(["\r\n", "\r"])("lines may end with %j", (lineEnd) => {
  const parse = createSseParser();
  // A trailing carriage return may be half of a line end.
  expect([...parse(WIRE.replaceAll("\n", lineEnd)), ...parse(":")]).toEqual(EVENTS);
});

test.each(["\n", "\r\n"])("any split gives the same events (line end %j)", (lineEnd) => {
  const text = WIRE.replaceAll("\n", lineEnd);
  for (let cut = 0; cut <= text.length; cut++) {
    const parse = createSseParser();
    expect([...parse(text.slice(0, cut)), ...parse(text.slice(cut))]).toEqual(EVENTS);
  }
});

test("chunks of one character give the same events", () => {
  const parse = createSseParser();
  expect([...WIRE].flatMap((char) => parse(char))).toEqual(EVENTS);
});

test("several data lines are joined and fields may have no space or value", () => {
  expect(createSseParser()("data:a\ndata: b\ndata\n\n")).toEqual([
    { id: null, event: "message", data: "a\nb\n" },
  ]);
});

test("an event without data and an incomplete one are skipped", () => {
  expect(createSseParser()("event: x\n\ndata: half")).toEqual([]);
});

test("a byte order mark is skipped", () => {
  expect(createSseParser()("\ufeffdata: x\n\n")).toHaveLength(1);
});

test("characters split between chunks are joined", async () => {
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
