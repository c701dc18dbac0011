/** The list of threads. */

import { Refused } from "@/api/http";
import type { WireThread } from "@/api/wire";
import type { Page, Thread } from "@/app/page";
import { problemOf, type Surroundings } from "@/app/surroundings";
import { firstOwn } from "@/run/reduce";

export interface ThreadActions {
  refreshThreads(): Promise<void>;
  /** Puts a thread at the head of the list with what this page knows of it. */
  touch(threadId: string, status: Thread["status"]): void;
  /** Takes a thread away for the eye; `undoRemove` brings it back, `finishRemove` makes it final. */
  remove(thread: Thread): void;
  undoRemove(): void;
  finishRemove(): Promise<void>;
}

const LISTED_THREADS = 200;

export function threadActions({ gateway, store, now, deleting }: Surroundings): ThreadActions {
  const { get, dispatch } = store;

  async function refreshThreads(): Promise<void> {
    try {
      const threads = await gateway.threads(LISTED_THREADS);
      // A reload may be faster than the deletion that the page before it sent off.
      const kept = threads.filter((thread) => thread.thread_id !== deleting.get());
      dispatch({ type: "threads listed", threads: kept.map(threadOf) });
    } catch (error) {
      dispatch({ type: "threads failed", problem: problemOf(error) });
    }
  }

  async function finishRemove(): Promise<void> {
    const thread = get().deleted;
    if (thread === null) return;
    dispatch({ type: "deletion final", threadId: thread.id });
    deleting.set(thread.id);
    try {
      await gateway.deleteThread(thread.id);
    } catch (error) {
      const gone = error instanceof Refused && error.status === 404;
      deleting.set(null);
      if (!gone) await refreshThreads();
    }
  }

  return {
    refreshThreads,
    finishRemove,

    touch(threadId, status) {
      const title = knownTitle(get(), threadId);
      const updatedAt = new Date(now()).toISOString();
      dispatch({ type: "thread touched", thread: { id: threadId, title, updatedAt, status } });
    },

    remove(thread) {
      void finishRemove(); // of the one deleted before: only the last can be had back
      dispatch({ type: "thread deleted", thread });
    },

    undoRemove() {
      const thread = get().deleted;
      if (thread !== null) dispatch({ type: "deletion undone", thread });
    },
  };
}

function threadOf(wire: WireThread): Thread {
  const title = wire.values?.title ?? wire.metadata.title;
  return {
    id: wire.thread_id,
    title: typeof title === "string" && title !== "" ? title : null,
    updatedAt: wire.updated_at,
    status: wire.status,
  };
}

/** The title of the open thread; its first words until it has one. */
function knownTitle({ conversation, threads }: Page, threadId: string): string | null {
  const listed = threads.phase === "ready" ? threads.value.find(({ id }) => id === threadId) : undefined;
  const firstWords = firstOwn(conversation)?.text.trim().split("\n")[0]?.slice(0, 80) || null;
  return conversation.title ?? listed?.title ?? firstWords;
}
