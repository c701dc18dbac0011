/** Reads run streams into the store, one run at a time. */

import type { RunError } from "@/run/reduce";
import { followRun, type RunSource } from "@/run/stream";
import type { Dependencies } from "@/state/actions/dependencies";
import type { ThreadActions } from "@/state/actions/threadActions";
import { MODELS_KEY } from "@/state/models";

export interface RunReader {
  /** Aborted when another thread is opened; the run itself continues. */
  signal(): AbortSignal;
  /** Stop reading the current run. */
  leave(): void;
  /** Read a run to its end, then the queued runs. */
  read(threadId: string, source: RunSource): Promise<void>;
  /** Read queued runs unless a run is being read. */
  readQueued(threadId: string): Promise<void>;
  joinSource(threadId: string, runId: string, after: number | null): RunSource;
}

export function createRunReader(
  { gateway, store, queries, retryPolicy, now }: Dependencies,
  threads: ThreadActions,
): RunReader {
  const { get, dispatch, dispatchBatched } = store;
  let attached = new AbortController();
  let busy = false;

  async function follow(threadId: string, source: RunSource, signal: AbortSignal): Promise<void> {
    for await (const item of followRun(source, retryPolicy, signal)) {
      if (item.type !== "frame") {
        dispatch({ type: "run", event: item });
        continue;
      }
      const { seq, frame } = item;
      dispatchBatched({ type: "run", event: { type: "frameReceived", seq, at: now(), frame } });
      if (frame.event === "changes" && frame.data.values?.title != null) threads.touch(threadId, "busy");
    }
  }

  async function readOne(threadId: string, source: RunSource, signal: AbortSignal): Promise<void> {
    try {
      await follow(threadId, source, signal);
    } catch (error) {
      if (signal.aborted) return;
      dispatch({ type: "run", event: { type: "streamFailed", error: runErrorOf(error) } });
    }
  }

  function joinSource(threadId: string, runId: string, after: number | null): RunSource {
    return {
      connect: (until) => gateway.joinRun(threadId, runId, after, until),
      rejoin: (_, last, until) => gateway.joinRun(threadId, runId, last ?? after, until),
    };
  }

  /** Queued runs are read in order; messages added to another run are dropped from the queue. */
  async function readQueued(threadId: string): Promise<void> {
    const { signal } = attached;
    while (!signal.aborted && !busy) {
      const next = get().conversation.queued.find(({ runId }) => runId !== null);
      if (next === undefined || next.runId === null) return;
      busy = true;
      await readOne(threadId, joinSource(threadId, next.runId, null), signal);
      busy = signal.aborted ? busy : false;
      if (!signal.aborted) dispatch({ type: "run", event: { type: "dequeued", messageId: next.messageId } });
    }
  }

  return {
    signal: () => attached.signal,
    joinSource,
    readQueued,

    leave() {
      attached.abort();
      attached = new AbortController();
      busy = false;
    },

    async read(threadId, source) {
      const { signal } = attached;
      busy = true;
      await readOne(threadId, source, signal);
      if (signal.aborted) return;
      busy = false;
      await readQueued(threadId);
      if (signal.aborted) return;
      threads.touch(threadId, get().conversation.run.phase === "failed" ? "error" : "idle");
      // A run uses the configuration of its start, which may have changed since the models were loaded.
      void queries.invalidateQueries({ queryKey: MODELS_KEY });
      await threads.refreshThreads();
    },
  };
}

function runErrorOf(error: unknown): RunError {
  if (error instanceof Error) return { name: error.name, message: error.message };
  return { name: "Error", message: String(error) };
}
