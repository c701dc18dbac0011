import { expect, test } from "vitest";
import { ApiError, NetworkError } from "@/api/http";
import { followRun, type RetryPolicy, type RunSource, type StreamSignal } from "@/run/stream";
import {
  all,
  encodeEvent,
  instantRetryPolicy,
  openStream,
  streamOf,
  type WireEvent,
} from "@/testing/gateway";

const metadata: WireEvent = ["metadata", { run_id: "r", thread_id: "t" }];
const token: WireEvent = ["messages", [{ type: "AIMessageChunk", id: "a", content: "x" }, {}]];
const end: WireEvent = ["end", null];

/** Return a source with these responses; records where it was joined. */
function sourceOf(
  first: Response | Error,
  ...next: (Response | Error)[]
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
      return give(next.shift());
    },
  };
}

async function signals(source: RunSource, retryPolicy: RetryPolicy = instantRetryPolicy): Promise<string[]> {
  const seen = await all(followRun(source, retryPolicy, new AbortController().signal));
  return seen.map(nameOf);
}

function nameOf(signal: StreamSignal): string {
  return signal.type === "frame" ? `${signal.seq} ${signal.frame.event}` : signal.type;
}

test("a run is streamed to its end", async () => {
  const source = sourceOf(streamOf([metadata, token, end]));
  expect(await signals(source)).toEqual(["runJoined", "1 metadata", "2 messages", "3 end"]);
});

test("unknown events are skipped", async () => {
  expect(await signals(sourceOf(streamOf([["checkpoints", {}], end])))).toEqual(["runJoined", "2 end"]);
});

test("a connection closed early is rejoined after the last event", async () => {
  const source = sourceOf(streamOf([metadata, token]), streamOf([token, end], 3));
  expect(await signals(source)).toEqual([
    "runJoined",
    "1 metadata",
    "2 messages",
    "disconnected",
    "reconnected",
    "3 messages",
    "4 end",
  ]);
  expect(source.joinedAfter).toEqual([2]);
});

test("a broken connection is rejoined like a closed one", async () => {
  const stream = openStream();
  const source = sourceOf(stream.response, streamOf([end], 2));
  const seen: string[] = [];
  stream.write(encodeEvent(1, metadata));
  for await (const signal of followRun(source, instantRetryPolicy, new AbortController().signal)) {
    seen.push(nameOf(signal));
    if (seen.at(-1) === "1 metadata") stream.cut();
  }
  expect(seen).toEqual(["runJoined", "1 metadata", "disconnected", "reconnected", "2 end"]);
});

test("a silent connection is dropped", async () => {
  const stream = openStream();
  stream.write(encodeEvent(1, metadata));
  const source = sourceOf(stream.response, streamOf([end], 2));
  const seen = await signals(source, { ...instantRetryPolicy, silenceMs: 5 });
  expect(seen).toEqual(["runJoined", "1 metadata", "disconnected", "reconnected", "2 end"]);
});

test("an unreachable server is retried with backoff", async () => {
  const away = () => new NetworkError("away");
  const down = new ApiError("InternalError", 500, "starting");
  const source = sourceOf(streamOf([metadata]), away(), away(), down, away(), away(), streamOf([end], 2));
  const pauses: number[] = [];
  const retryPolicy: RetryPolicy = { ...instantRetryPolicy, pause: async (ms) => void pauses.push(ms) };
  expect((await signals(source, retryPolicy)).slice(-2)).toEqual(["reconnected", "2 end"]);
  expect(pauses).toEqual([500, 1000, 2000, 4000, 5000, 5000]);
});

test("connections without an event keep the backoff", async () => {
  const source = sourceOf(streamOf([metadata]), streamOf([]), streamOf([]), streamOf([end], 2));
  const pauses: number[] = [];
  const retryPolicy: RetryPolicy = { ...instantRetryPolicy, pause: async (ms) => void pauses.push(ms) };
  await signals(source, retryPolicy);
  expect(pauses).toEqual([500, 1000, 2000]);
});

test("a missing run is an error", async () => {
  const gone = new ApiError("NotFound", 404, "no run 'r'");
  await expect(signals(sourceOf(streamOf([metadata]), gone))).rejects.toBe(gone);
});

test("a failed first connection is thrown", async () => {
  const busy = new ApiError("Conflict", 409, "the thread is busy");
  await expect(signals(sourceOf(busy))).rejects.toBe(busy);
});

test("an abort ends the stream without an error", async () => {
  const stream = openStream();
  const stop = new AbortController();
  stream.write(encodeEvent(1, metadata));
  const seen: string[] = [];
  for await (const signal of followRun(sourceOf(stream.response), instantRetryPolicy, stop.signal)) {
    seen.push(nameOf(signal));
    if (seen.length === 2) stop.abort();
  }
  expect(seen).toEqual(["runJoined", "1 metadata"]);
});
