/** Reads runs into the store: one after the other, until none is left or the thread is left. */

import type { Surroundings } from "@/app/surroundings";
import type { ThreadActions } from "@/app/threadActions";
import type { RunError } from "@/run/reduce";
import { followRun, type RunSource } from "@/run/stream";

export interface Reading {
  /** Ends when the open thread is left: that ends the reading of its run, not the run. */
  signal(): AbortSignal;
  /** Leaves what was read. */
  leave(): void;
  /** Reads a run to its end, and then those that waited for it. */
  read(threadId: string, source: RunSource): Promise<void>;
  /** Reads the runs that waited, unless one is being read. */
  readWaiting(threadId: string): Promise<void>;
  joining(threadId: string, runId: string, after: number | null): RunSource;
}

export function createReading(
  { gateway, store, patience, now }: Surroundings,
  threads: ThreadActions,
): Reading {
  const { get, dispatch, dispatchQuietly } = store;
  let stay = new AbortController();
  let busy = false;

  async function follow(threadId: string, source: RunSource, signal: AbortSignal): Promise<void> {
    for await (const heard of followRun(source, patience, signal)) {
      if (heard.type !== "frame") {
        dispatch({ type: "run", event: heard });
        continue;
      }
      const { seq, frame } = heard;
      dispatchQuietly({ type: "run", event: { type: "received", seq, at: now(), frame } });
      if (frame.event === "changes" && frame.data.values?.title != null) threads.touch(threadId, "busy");
    }
  }

  async function readOne(threadId: string, source: RunSource, signal: AbortSignal): Promise<void> {
    try {
      await follow(threadId, source, signal);
    } catch (error) {
      if (signal.aborted) return;
      dispatch({ type: "run", event: { type: "broken", error: runErrorOf(error) } });
    }
  }

  function joining(threadId: string, runId: string, after: number | null): RunSource {
    return {
      connect: (until) => gateway.joinRun(threadId, runId, after, until),
      rejoin: (_, last, until) => gateway.joinRun(threadId, runId, last ?? after, until),
    };
  }

  /** What waited is answered in turn; what has joined a run in the meantime has nothing left to say. */
  async function readWaiting(threadId: string): Promise<void> {
    const { signal } = stay;
    while (!signal.aborted && !busy) {
      const next = get().conversation.waiting.find(({ runId }) => runId !== null);
      if (next === undefined || next.runId === null) return;
      busy = true;
      await readOne(threadId, joining(threadId, next.runId, null), signal);
      busy = signal.aborted ? busy : false;
      if (!signal.aborted) dispatch({ type: "run", event: { type: "withdrawn", messageId: next.messageId } });
    }
  }

  return {
    signal: () => stay.signal,
    joining,
    readWaiting,

    leave() {
      stay.abort();
      stay = new AbortController();
      busy = false;
    },

    async read(threadId, source) {
      const { signal } = stay;
      busy = true;
      await readOne(threadId, source, signal);
      if (signal.aborted) return;
      busy = false;
      await readWaiting(threadId);
      if (signal.aborted) return;
      threads.touch(threadId, get().conversation.run.phase === "failed" ? "error" : "idle");
      await threads.refreshThreads();
    },
  };
}

function runErrorOf(error: unknown): RunError {
  if (error instanceof Error) return { name: error.name, message: error.message };
  return { name: "Error", message: String(error) };
}
