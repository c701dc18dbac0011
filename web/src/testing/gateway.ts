/** Fake gateway and event streams. */

import type { Gateway } from "@/api/gateway";
import type { ModelInfo } from "@/api/wire";
import type { RetryPolicy } from "@/run/stream";

export const DEMO_MODEL: ModelInfo = {
  name: "demo",
  model: "demo",
  display_name: "Demo",
  description: "Scripted",
  supports_thinking: false,
  supports_reasoning_effort: false,
  supports_vision: false,
  scripted: true,
};

/** Create a fake of an empty server; `answers` overrides calls. */
export function fakeGateway(answers: Partial<Gateway> = {}): Gateway {
  return {
    sandbox: async () => ({
      tier: "isolated",
      detail: "bubblewrap",
      problem: null,
      remedy: null,
      network: "none",
      code: null,
      toolbox: null,
    }),
    models: async () => ({ models: [DEMO_MODEL], default: "demo" }),
    starters: async () => [],
    threads: async () => [],
    updateThread: async () => {},
    messagePage: async () => ({}),
    deleteThread: async () => {},
    makeTemporary: async () => {},
    endTemporary: async () => {},
    compact: async () => "summarized",
    newestRun: async () => null,
    startRun: async () => streamOf([]),
    resumeRun: async () => streamOf([]),
    repeatRun: async () => streamOf([]),
    addRun: async () => ({ run_id: "r2", status: "pending", created_at: "", updated_at: "" }),
    unfinishedRuns: async () => [],
    reports: async () => [],
    runError: async () => null,
    beginningOf: async () => "c0",
    endOf: async () => "c1",
    copyThread: async () => "copy",
    joinRun: async () => streamOf([]),
    cancelRun: async () => {},
    ...answers,
  };
}

/** Retry policy without delays. */
export const instantRetryPolicy: RetryPolicy = { pause: async () => {}, silenceMs: 60_000 };

/** A promise that the test resolves. */
export function deferred<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

export type WireEvent = readonly [event: string, data: unknown];

/** Encode an event as SSE. */
export function encodeEvent(seq: number, [event, data]: WireEvent): string {
  return `id: ${seq}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Create a response with these events, numbered from `first`. */
export function streamOf(events: readonly WireEvent[], first = 1): Response {
  const text = events.map((event, index) => encodeEvent(first + index, event)).join("");
  return new Response(text, { headers: { "Content-Location": "/threads/t/runs/r" } });
}

/** Create a response that the test writes to and closes. */
export function openStream(): {
  response: Response;
  write: (text: string) => void;
  close: () => void;
  cut: () => void;
} {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given;
    },
  });
  return {
    response: new Response(body, { headers: { "Content-Location": "/threads/t/runs/r" } }),
    write: (text) => controller?.enqueue(new TextEncoder().encode(text)),
    close: () => controller?.close(),
    cut: () => controller?.error(new TypeError("network error")),
  };
}

/** Collect all items. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}
