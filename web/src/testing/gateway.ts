/** A gateway that is a script, and streams that are added by you. */

import type { Gateway } from "@/api/gateway";
import type { ModelInfo } from "@/api/wire";
import type { Patience } from "@/run/stream";

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

/** Answers of an empty server; `answers` says what is different. */
export function fakeGateway(answers: Partial<Gateway> = {}): Gateway {
  return {
    sandbox: async () => ({ tier: "isolated", detail: "bubblewrap", problem: null, remedy: null }),
    models: async () => ({ models: [DEMO_MODEL], default: "demo" }),
    starters: async () => [],
    threads: async () => [],
    updateThread: async () => {},
    said: async () => ({}),
    deleteThread: async () => {},
    newestRun: async () => null,
    startRun: async () => streamOf([]),
    resumeRun: async () => streamOf([]),
    repeatRun: async () => streamOf([]),
    addRun: async () => ({ run_id: "r2", status: "pending", created_at: "", updated_at: "" }),
    unfinishedRuns: async () => [],
    reports: async () => [],
    beginningOf: async () => "c0",
    endOf: async () => "c1",
    copyThread: async () => "copy",
    joinRun: async () => streamOf([]),
    cancelRun: async () => {},
    ...answers,
  };
}

/** Pauses that take no time, and a patience nothing exhausts. */
export const noWaiting: Patience = { pause: async () => {}, silenceMs: 60_000 };

/** An answer that comes when the test says so. */
export function later<T>(): { readonly comes: Promise<T>; readonly come: (answer: T) => void } {
  let come: (answer: T) => void = () => {};
  const comes = new Promise<T>((resolve) => {
    come = resolve;
  });
  return { comes, come };
}

export type Written = readonly [event: string, data: unknown];

/** One event on the wire. */
export function written(seq: number, [event, data]: Written): string {
  return `id: ${seq}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** A response that says these events, numbered from `first`, and closes. */
export function streamOf(events: readonly Written[], first = 1): Response {
  const text = events.map((event, index) => written(first + index, event)).join("");
  return new Response(text, { headers: { "Content-Location": "/threads/t/runs/r" } });
}

/** A response that stays open until the test closes it. */
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

/** Everything a generator yields. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}
