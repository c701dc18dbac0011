import { expect, test } from "vitest";
import { readEvents, type SseEvent } from "@/run/sse";
import { all } from "@/testing/gateway";

const WIRE =
  'id: 1\nevent: metadata\ndata: {"run_id":"r"}\n\n: heartbeat\n\nid: 2\nevent: end\ndata: null\n\n';
const EVENTS = [
  { id: "1", event: "metadata", data: '{"run_id":"r"}' },
  { id: "2", event: "end", data: "null" },
];

/** Parse a body that arrives in these chunks. */
function parse(chunks: readonly (string | Uint8Array)[], onBytes?: () => void): Promise<SseEvent[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks)
        controller.enqueue(typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk);
      controller.close();
    },
  });
  return all(readEvents(body, onBytes));
}

test("events are parsed and comments are skipped", async () => {
  expect(await parse([WIRE])).toEqual(EVENTS);
});

test("every chunk is reported, comments included", async () => {
  let chunks = 0;
  await parse([": heartbeat\n\n", ": heartbeat\n\n"], () => chunks++);
  expect(chunks).toBe(2);
});

test.each(["\r\n", "\r"])("lines may end with %j", async (lineEnd) => {
  // A trailing carriage return may be half of a line end: the next line decides.
  expect(await parse([WIRE.replaceAll("\n", lineEnd), `:${lineEnd}`])).toEqual(EVENTS);
});

test.each(["\n", "\r\n"])("any split gives the same events (line end %j)", async (lineEnd) => {
  const text = WIRE.replaceAll("\n", lineEnd);
  for (let cut = 0; cut <= text.length; cut++)
    expect(await parse([text.slice(0, cut), text.slice(cut)])).toEqual(EVENTS);
});

test("chunks of one character give the same events", async () => {
  expect(await parse([...WIRE])).toEqual(EVENTS);
});

test("several data lines are joined and fields may have no space or value", async () => {
  expect(await parse(["data:a\ndata: b\ndata\n\n"])).toEqual([
    { id: null, event: "message", data: "a\nb\n" },
  ]);
});

test("an event without data and an incomplete one are skipped", async () => {
  expect(await parse(["event: x\n\ndata: half"])).toEqual([]);
});

test("a byte order mark is skipped", async () => {
  expect(await parse(["\ufeffdata: x\n\n"])).toHaveLength(1);
});

test("characters split between chunks are joined", async () => {
  const bytes = [...new TextEncoder().encode("data: 鹿🦌\n\n")].map((byte) => Uint8Array.of(byte));
  expect((await parse(bytes)).map(({ data }) => data)).toEqual(["鹿🦌"]);
});
