import { expect, test } from "vitest";
import { Refused, Unreachable } from "@/api/http";
import { followRun, type Patience, type RunSource, type StreamSignal } from "@/run/stream";
import { all, noWaiting, openStream, streamOf, type Written, written } from "@/testing/gateway";

const metadata: Written = ["metadata", { run_id: "r", thread_id: "t" }];
const token: Written = ["messages", [{ type: "AIMessageChunk", id: "a", content: "x" }, {}]];
const end: Written = ["end", null];

/** A source whose first connection and later ones are these; it remembers where it was joined. */
function sourceOf(
  first: Response | Error,
  ...later: (Response | Error)[]
): RunSource & { joinedAfter: (number | null)[] } {
  const joinedAfter: (number | null)[] = [];
  const give = (answer: Response | Error | undefined): Response => {
    if (answer instanceof Response) return answer;
    throw answer ?? new Error("the source has no more connections");
  };
  return {
    joinedAfter,
    connect: async () => give(first),
    rejoin: async (_, after) => {
      joinedAfter.push(after);
      return give(later.shift());
    },
  };
}

async function signals(source: RunSource, patience: Patience = noWaiting): Promise<string[]> {
  const heard = await all(followRun(source, patience, new AbortController().signal));
  return heard.map(nameOf);
}

function nameOf(signal: StreamSignal): string {
  return signal.type === "frame" ? `${signal.seq} ${signal.frame.event}` : signal.type;
}

test("a run is followed to its end", async () => {
  const source = sourceOf(streamOf([metadata, token, end]));
  expect(await signals(source)).toEqual(["following", "1 metadata", "2 messages", "3 end"]);
});

test("events this page does not know are passed over", async () => {
  expect(await signals(sourceOf(streamOf([["checkpoints", {}], end])))).toEqual(["following", "2 end"]);
});

test("a connection that closes before the end is taken up after the last event", async () => {
  const source = sourceOf(streamOf([metadata, token]), streamOf([token, end], 3));
  expect(await signals(source)).toEqual([
    "following",
    "1 metadata",
    "2 messages",
    "disconnected",
    "reconnected",
    "3 messages",
    "4 end",
  ]);
  expect(source.joinedAfter).toEqual([2]);
});

test("a connection that breaks is taken up as one that closes", async () => {
  const stream = openStream();
  const source = sourceOf(stream.response, streamOf([end], 2));
  const heard: string[] = [];
  stream.write(written(1, metadata));
  for await (const signal of followRun(source, noWaiting, new AbortController().signal)) {
    heard.push(nameOf(signal));
    if (heard.at(-1) === "1 metadata") stream.cut();
  }
  expect(heard).toEqual(["following", "1 metadata", "disconnected", "reconnected", "2 end"]);
});

test("a connection that falls silent is given up", async () => {
  const stream = openStream();
  stream.write(written(1, metadata));
  const source = sourceOf(stream.response, streamOf([end], 2));
  const heard = await signals(source, { ...noWaiting, silenceMs: 5 });
  expect(heard).toEqual(["following", "1 metadata", "disconnected", "reconnected", "2 end"]);
});

test("an absent server is asked again with growing pauses until it is back", async () => {
  const away = () => new Unreachable("away");
  const down = new Refused("InternalError", 500, "starting");
  const source = sourceOf(streamOf([metadata]), away(), away(), down, away(), away(), streamOf([end], 2));
  const pauses: number[] = [];
  const patience: Patience = { ...noWaiting, pause: async (ms) => void pauses.push(ms) };
  expect((await signals(source, patience)).slice(-2)).toEqual(["reconnected", "2 end"]);
  expect(pauses).toEqual([500, 1000, 2000, 4000, 5000, 5000]);
});

test("connections that open and close without an event are not tried hotly", async () => {
  const source = sourceOf(streamOf([metadata]), streamOf([]), streamOf([]), streamOf([end], 2));
  const pauses: number[] = [];
  const patience: Patience = { ...noWaiting, pause: async (ms) => void pauses.push(ms) };
  await signals(source, patience);
  expect(pauses).toEqual([500, 1000, 2000]);
});

test("a run that is gone is an error", async () => {
  const gone = new Refused("NotFound", 404, "no run 'r'");
  await expect(signals(sourceOf(streamOf([metadata]), gone))).rejects.toBe(gone);
});

test("a first connection that fails is the caller's to handle", async () => {
  const busy = new Refused("Conflict", 409, "the thread is busy");
  await expect(signals(sourceOf(busy))).rejects.toBe(busy);
});

test("an abort ends the reading quietly", async () => {
  const stream = openStream();
  const stop = new AbortController();
  stream.write(written(1, metadata));
  const heard: string[] = [];
  for await (const signal of followRun(sourceOf(stream.response), noWaiting, stop.signal)) {
    heard.push(nameOf(signal));
    if (heard.length === 2) stop.abort();
  }
  expect(heard).toEqual(["following", "1 metadata"]);
});
