/** Streams a run to its end and reconnects as needed. */

import { ApiError, NetworkError } from "@/api/http";
import { type Frame, frameOf } from "@/api/wire";
import { readEvents } from "@/run/sse";

export type StreamSignal =
  | { readonly type: "runJoined"; readonly runId: string }
  | { readonly type: "frame"; readonly seq: number; readonly frame: Frame }
  | { readonly type: "disconnected" }
  | { readonly type: "reconnected" };

/** Connects to a run and rejoins it after an event. */
export interface RunSource {
  connect(signal: AbortSignal): Promise<Response>;
  rejoin(runId: string, after: number | null, signal: AbortSignal): Promise<Response>;
}

/** Retry policy; tests pass one without delays. */
export interface RetryPolicy {
  /** Wait `ms` or until the network is back; rejects on abort. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
  /** A silence longer than this means a dead connection; the server sends a comment every 15 s. */
  readonly silenceMs: number;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;

/**
 * Yield every frame of a run once; returns after `end` or an abort.
 * Throws `ApiError` or `NetworkError` if the first connection fails, `ApiError` if the run no longer exists.
 */
export async function* followRun(
  source: RunSource,
  retryPolicy: RetryPolicy,
  signal: AbortSignal,
): AsyncGenerator<StreamSignal> {
  let response = await source.connect(signal);
  let runId = runIdOf(response);
  let last: number | null = null;
  let failures = 0;
  if (runId !== null) yield { type: "runJoined", runId };

  for (;;) {
    for await (const event of eventsUntilBroken(response, retryPolicy.silenceMs, signal)) {
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
    if (runId === null) throw new NetworkError("the connection ended before the run was known");
    yield { type: "disconnected" };
    const joined = await rejoin(source, runId, last, failures, retryPolicy, signal);
    if (joined === null) return;
    // Only an event resets the backoff: a connection may open and close at once.
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
  retryPolicy: RetryPolicy,
  signal: AbortSignal,
): Promise<{ response: Response; failures: number } | null> {
  for (let attempt = failures; !signal.aborted; attempt++) {
    try {
      await retryPolicy.pause(Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS), signal);
      return { response: await source.rejoin(runId, after, signal), failures: attempt + 1 };
    } catch (error) {
      if (signal.aborted) return null;
      if (error instanceof ApiError && error.status < 500) throw error;
      if (!(error instanceof ApiError || error instanceof NetworkError)) throw error;
    }
  }
  return null;
}

/** Yield events until the response ends, breaks, is silent too long or is aborted. */
async function* eventsUntilBroken(response: Response, silenceMs: number, signal: AbortSignal) {
  if (response.body === null) return;
  const silence = new AbortController();
  let watch = setTimeout(() => silence.abort(), silenceMs);
  const body = response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), {
    signal: AbortSignal.any([signal, silence.signal]),
  });
  const onBytes = () => {
    clearTimeout(watch);
    watch = setTimeout(() => silence.abort(), silenceMs);
  };
  const events = readEvents(body, onBytes);
  try {
    for (;;) {
      const next = await events.next().catch(() => null); // treat a broken connection like a closed one
      if (next === null || next.done) return;
      yield next.value;
    }
  } finally {
    clearTimeout(watch);
    await events.return(undefined);
  }
}

/** Parse the run id of `Content-Location: /threads/{t}/runs/{r}`. */
function runIdOf(response: Response): string | null {
  return /\/runs\/([^/?]+)/.exec(response.headers.get("Content-Location") ?? "")?.[1] ?? null;
}

/** Browser timers; an `online` event ends a pause. */
export const browserRetryPolicy: RetryPolicy = {
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
