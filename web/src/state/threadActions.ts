/** Actions of the thread list. */

import { ApiError } from "@/api/http";
import type { WireThread } from "@/api/wire";
import { firstOwn } from "@/run/reduce";
import { type Dependencies, toProblem } from "@/state/dependencies";
import type { Page, Thread, ThreadChange } from "@/state/page";

export interface ThreadActions {
  refreshThreads(): Promise<void>;
  /** Load the next page of threads. */
  loadMoreThreads(): Promise<void>;
  /** Move a thread to the top of the list with the data this page has. */
  touch(threadId: string, status: Thread["status"]): void;
  rename(thread: Thread, title: string): Promise<void>;
  pin(thread: Thread, pinned: boolean): Promise<void>;
  archive(thread: Thread, archived: boolean): Promise<void>;
  /** Report that an export failed. */
  reportExportFailure(thread: Thread): void;
  /** Undo the last change. */
  undoChange(): Promise<void>;
  dismissChange(): void;
  /** Hide a thread; `undoRemove` restores it, `finishRemove` deletes it. */
  remove(thread: Thread): void;
  undoRemove(): void;
  finishRemove(): Promise<void>;
}

const PAGE_OF_THREADS = 100;
const MOST_AT_ONCE = 1000; // the server's maximum page size

export function threadActions(dependencies: Dependencies): ThreadActions {
  const { gateway, store, now, deleting } = dependencies;
  const { get, dispatch } = store;
  let loadingMore = false;
  let reached = 0; // number of threads loaded so far

  // After a reload the thread may still be listed while its deletion is in progress.
  const toThreads = (threads: readonly WireThread[]) =>
    threads.filter((thread) => thread.thread_id !== deleting.get()).map(threadOf);

  async function refreshThreads(): Promise<void> {
    const limit = Math.min(Math.max(PAGE_OF_THREADS, reached), MOST_AT_ONCE);
    try {
      // Pinned threads are listed regardless of age.
      const [newest, pinned] = await Promise.all([
        gateway.threads(limit),
        gateway.threads(PAGE_OF_THREADS, 0, { pinned: true }),
      ]);
      reached = newest.length;
      dispatch({ type: "threadsListed", threads: toThreads(newest), more: newest.length === limit });
      dispatch({ type: "threadsContinued", threads: toThreads(pinned), more: newest.length === limit });
    } catch (error) {
      dispatch({ type: "threadsFailed", problem: toProblem(error) });
    }
  }

  async function loadMoreThreads(): Promise<void> {
    if (loadingMore || !get().moreThreads) return;
    loadingMore = true;
    try {
      const older = await gateway.threads(PAGE_OF_THREADS, reached);
      reached += older.length;
      const more = older.length === PAGE_OF_THREADS;
      dispatch({ type: "threadsContinued", threads: toThreads(older), more });
    } catch {
      // Keep the list; scrolling to its end retries.
    } finally {
      loadingMore = false;
    }
  }

  async function finishRemove(): Promise<void> {
    const thread = get().deleted;
    if (thread === null) return;
    dispatch({ type: "deletionFinished", threadId: thread.id });
    deleting.set(thread.id);
    try {
      await gateway.deleteThread(thread.id);
    } catch (error) {
      const gone = error instanceof ApiError && error.status === 404;
      deleting.set(null);
      if (!gone) await refreshThreads();
    }
  }

  return {
    refreshThreads,
    loadMoreThreads,
    finishRemove,
    ...changeActions(dependencies),

    reportExportFailure: (before) =>
      dispatch({ type: "threadChanged", thread: before, change: { kind: "unexported", before } }),

    touch(threadId, status) {
      const known = listed(get()).find(({ id }) => id === threadId);
      const { renamed = false, pinned = false, archived = false } = known ?? {};
      const title = renamed && known ? known.title : knownTitle(get(), known);
      const updatedAt = new Date(now()).toISOString();
      const thread = { id: threadId, title, updatedAt, status, renamed, pinned, archived, waitsFor: null };
      dispatch({ type: "threadTouched", thread });
    },

    remove(thread) {
      void finishRemove(); // the previous one: only the last deletion can be undone
      dispatch({ type: "threadDeleted", thread });
    },

    undoRemove() {
      const thread = get().deleted;
      if (thread !== null) dispatch({ type: "deletionUndone", thread });
    },
  };
}

type ChangeActions = Pick<ThreadActions, "rename" | "pin" | "archive" | "undoChange" | "dismissChange">;

/** Optimistic changes, reverted if the request fails. */
function changeActions({ gateway, store }: Dependencies): ChangeActions {
  const { get, dispatch } = store;

  async function make(before: Thread, thread: Thread, kind: ThreadChange["kind"] | null): Promise<void> {
    dispatch({ type: "threadChanged", thread, change: kind && { kind, before } });
    try {
      await gateway.updateThread(thread.id, {
        title: thread.renamed ? thread.title : null,
        pinned: thread.pinned,
        archived: thread.archived,
      });
    } catch {
      dispatch({ type: "threadChanged", thread: before, change: { kind: "refused", before } });
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
    dismissChange: () => dispatch({ type: "threadChangeDismissed" }),
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

/** Return the title of the open thread, else its first message. */
function knownTitle({ conversation }: Page, known: Thread | undefined): string | null {
  const firstWords = firstOwn(conversation)?.text.trim().split("\n")[0]?.slice(0, 80) || null;
  return conversation.title ?? known?.title ?? firstWords;
}
