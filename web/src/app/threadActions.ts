/** The list of threads. */

import { Refused } from "@/api/http";
import type { WireThread } from "@/api/wire";
import type { Page, Thread, ThreadChange } from "@/app/page";
import { problemOf, type Surroundings } from "@/app/surroundings";
import { firstOwn } from "@/run/reduce";

export interface ThreadActions {
  refreshThreads(): Promise<void>;
  /** Lists threads that are older than those listed. */
  loadMoreThreads(): Promise<void>;
  /** Puts a thread at the head of the list with what this page knows of it. */
  touch(threadId: string, status: Thread["status"]): void;
  rename(thread: Thread, title: string): Promise<void>;
  pin(thread: Thread, pinned: boolean): Promise<void>;
  archive(thread: Thread, archived: boolean): Promise<void>;
  /** Says that a thread could not be had as a file. */
  sayUnexported(thread: Thread): void;
  /** Makes the newest change of a thread undone. */
  undoChange(): Promise<void>;
  forgetChange(): void;
  /** Takes a thread away for the eye; `undoRemove` brings it back, `finishRemove` makes it final. */
  remove(thread: Thread): void;
  undoRemove(): void;
  finishRemove(): Promise<void>;
}

const PAGE_OF_THREADS = 100;
const MOST_AT_ONCE = 1000; // more the server does not tell at a time

export function threadActions(around: Surroundings): ThreadActions {
  const { gateway, store, now, deleting } = around;
  const { get, dispatch } = store;
  let loadingMore = false;
  let reached = 0; // how many of the newest threads the server has told

  // A reload may be faster than the deletion that the page before it sent off.
  const kept = (threads: readonly WireThread[]) =>
    threads.filter((thread) => thread.thread_id !== deleting.get()).map(threadOf);

  async function refreshThreads(): Promise<void> {
    const limit = Math.min(Math.max(PAGE_OF_THREADS, reached), MOST_AT_ONCE);
    try {
      // Pinned ones are listed however old they are.
      const [newest, pinned] = await Promise.all([
        gateway.threads(limit),
        gateway.threads(PAGE_OF_THREADS, 0, { pinned: true }),
      ]);
      reached = newest.length;
      dispatch({ type: "threads listed", threads: kept(newest), more: newest.length === limit });
      dispatch({ type: "threads continued", threads: kept(pinned), more: newest.length === limit });
    } catch (error) {
      dispatch({ type: "threads failed", problem: problemOf(error) });
    }
  }

  async function loadMoreThreads(): Promise<void> {
    if (loadingMore || !get().moreThreads) return;
    loadingMore = true;
    try {
      const older = await gateway.threads(PAGE_OF_THREADS, reached);
      reached += older.length;
      const more = older.length === PAGE_OF_THREADS;
      dispatch({ type: "threads continued", threads: kept(older), more });
    } catch {
      // What is listed stays; reaching the end of it again asks again.
    } finally {
      loadingMore = false;
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
    loadMoreThreads,
    finishRemove,
    ...changeActions(around),

    sayUnexported: (before) =>
      dispatch({ type: "thread changed", thread: before, change: { kind: "unexported", before } }),

    touch(threadId, status) {
      const known = listed(get()).find(({ id }) => id === threadId);
      const { renamed = false, pinned = false, archived = false } = known ?? {};
      const title = renamed && known ? known.title : knownTitle(get(), known);
      const updatedAt = new Date(now()).toISOString();
      const thread = { id: threadId, title, updatedAt, status, renamed, pinned, archived, waitsFor: null };
      dispatch({ type: "thread touched", thread });
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

type ChangeActions = Pick<ThreadActions, "rename" | "pin" | "archive" | "undoChange" | "forgetChange">;

/** Changes that are shown before the server has them, and taken back when it does not take them. */
function changeActions({ gateway, store }: Surroundings): ChangeActions {
  const { get, dispatch } = store;

  async function make(before: Thread, thread: Thread, kind: ThreadChange["kind"] | null): Promise<void> {
    dispatch({ type: "thread changed", thread, change: kind && { kind, before } });
    try {
      await gateway.updateThread(thread.id, {
        title: thread.renamed ? thread.title : null,
        pinned: thread.pinned,
        archived: thread.archived,
      });
    } catch {
      dispatch({ type: "thread changed", thread: before, change: { kind: "refused", before } });
    }
  }

  return {
    async rename(thread, title) {
      const name = title.trim();
      if (name === "" || name === thread.title) return;
      await make(thread, { ...thread, title: name, renamed: true }, "renamed");
    },
    pin: (thread, pinned) => make(thread, { ...thread, pinned }, pinned ? "pinned" : "unpinned"),
    archive: (thread, archived) =>
      make(thread, { ...thread, archived }, archived ? "archived" : "unarchived"),
    async undoChange() {
      const { changed } = get();
      if (changed === null) return;
      const now = listed(get()).find(({ id }) => id === changed.before.id) ?? changed.before;
      await make(now, changed.before, null);
    },
    forgetChange: () => dispatch({ type: "thread change seen" }),
  };
}

function listed({ threads }: Page): readonly Thread[] {
  return threads.phase === "ready" ? threads.value : [];
}

function threadOf(wire: WireThread): Thread {
  const { thread_id: id, updated_at: updatedAt, status, metadata, values, waits_for: waitsFor = null } = wire;
  const given = typeof metadata.title === "string" && metadata.title !== "" ? metadata.title : null;
  return {
    id,
    title: given ?? (values?.title || null),
    updatedAt,
    status,
    renamed: given !== null,
    pinned: metadata.pinned === true,
    archived: metadata.archived === true,
    waitsFor,
  };
}

/** The title of the open thread; its first words until it has one. */
function knownTitle({ conversation }: Page, known: Thread | undefined): string | null {
  const firstWords = firstOwn(conversation)?.text.trim().split("\n")[0]?.slice(0, 80) || null;
  return conversation.title ?? known?.title ?? firstWords;
}
