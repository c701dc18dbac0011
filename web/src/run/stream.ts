/** Follows one run to its end, whatever the network does. */

import { Refused, Unreachable } from "@/api/http";
import { type Frame, frameOf } from "@/api/wire";
import { readEvents } from "@/run/sse";

export type StreamSignal =
  | { readonly type: "following"; readonly runId: string }
  | { readonly type: "frame"; readonly seq: number; readonly frame: Frame }
  | { readonly type: "disconnected" }
  | { readonly type: "reconnected" };

/** How a run is first connected to, and how it is joined again after event `after`. */
export interface RunSource {
  connect(signal: AbortSignal): Promise<Response>;
  rejoin(runId: string, after: number | null, signal: AbortSignal): Promise<Response>;
}

/** What passes time; a test's passes it at once. */
export interface Patience {
  /** Resolves after `ms`, or earlier when the network is back; rejects on abort. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
  /** Silence longer than this means the connection is dead; the server sends a comment every 15 s. */
  readonly silenceMs: number;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;

/**
 * Yields every frame of a run once and returns after `end` or an abort.
 * Throws `Refused` or `Unreachable` if the first connection fails, `Refused` if the run is gone later.
 */
export async function* followRun(
  source: RunSource,
  patience: Patience,
  signal: AbortSignal,
): AsyncGenerator<StreamSignal> {
  let response = await source.connect(signal);
  let runId = runIdOf(response);
  let last: number | null = null;
  let failures = 0;
  if (runId !== null) yield { type: "following", runId };

  for (;;) {
    for await (const event of eventsUntilBroken(response, patience.silenceMs, signal)) {
      const frame = frameOf(event.event, event.data);
      const seq = Number(event.id ?? Number.NaN);
      if (Number.isFinite(seq)) last = seq;
      failures = 0;
      if (frame === null) continue;
      if (frame.event === "metadata") runId = frame.data.run_id;
      yield { type: "frame", seq: last ?? 0, frame };
      if (frame.event === "end") return;
    }
    if (signal.aborted) return;
    if (runId === null) throw new Unreachable("the connection ended before the run was known");
    yield { type: "disconnected" };
    const joined = await rejoin(source, runId, last, failures, patience, signal);
    if (joined === null) return;
    // Only an event proves a connection good: one that opens and closes at once must not be tried hotly.
    failures = joined.failures;
    response = joined.response;
    yield { type: "reconnected" };
  }
}

async function rejoin(
  source: RunSource,
  runId: string,
  after: number | null,
  failures: number,
  patience: Patience,
  signal: AbortSignal,
): Promise<{ response: Response; failures: number } | null> {
  for (let attempt = failures; !signal.aborted; attempt++) {
    try {
      await patience.pause(Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS), signal);
      return { response: await source.rejoin(runId, after, signal), failures: attempt + 1 };
    } catch (error) {
      if (signal.aborted) return null;
      if (error instanceof Refused && error.status < 500) throw error;
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    }
  }
  return null;
}

/** The events of a response until it ends, breaks, falls silent or is aborted. */
async function* eventsUntilBroken(response: Response, silenceMs: number, signal: AbortSignal) {
  if (response.body === null) return;
  const silence = new AbortController();
  let watch = setTimeout(() => silence.abort(), silenceMs);
  const body = response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), {
    signal: AbortSignal.any([signal, silence.signal]),
  });
  const heard = () => {
    clearTimeout(watch);
    watch = setTimeout(() => silence.abort(), silenceMs);
  };
  const events = readEvents(body, heard);
  try {
    for (;;) {
      const next = await events.next().catch(() => null); // a broken connection ends the same way as a closed one
      if (next === null || next.done) return;
      yield next.value;
    }
  } finally {
    clearTimeout(watch);
    await events.return(undefined);
  }
}

/** The run's id from `Content-Location: /threads/{t}/runs/{r}`. */
function runIdOf(response: Response): string | null {
  return /\/runs\/([^/?]+)/.exec(response.headers.get("Content-Location") ?? "")?.[1] ?? null;
}

/** Real time in a browser; `online` cuts a pause short. */
export const browserPatience: Patience = {
  silenceMs: 45_000,
  pause: (ms, signal) =>
    new Promise((resolve, reject) => {
      const settle = (finish: () => void) => () => {
        clearTimeout(timer);
        window.removeEventListener("online", go);
        signal.removeEventListener("abort", stop);
        finish();
      };
      const go = settle(resolve);
      const stop = settle(() => reject(signal.reason));
      const timer = setTimeout(go, ms);
      window.addEventListener("online", go);
      signal.addEventListener("abort", stop);
    }),
};
