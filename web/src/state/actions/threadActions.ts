/** Actions of the thread list. */

import { ApiError } from "@/api/http";
import type { WireThread } from "@/api/wire";
import { firstOwn } from "@/run/reduce";
import type { Dependencies } from "@/state/actions/dependencies";
import type { Page, ThreadChange } from "@/state/page";
import { IMMEDIATE } from "@/state/queries";
import {
  appendThreads,
  insertThread,
  NO_THREADS,
  THREADS_KEY,
  type Thread,
  type ThreadList,
  toThread,
  withoutThread,
} from "@/state/threadList";

export interface ThreadActions {
  /** Load the list from the server; the function of its query. */
  listThreads(): Promise<ThreadList>;
  refreshThreads(): Promise<void>;
  isListed(threadId: string | null): boolean;
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
  const { gateway, store, queries, now, deleting } = dependencies;
  const { get, dispatch } = store;
  const { list, update } = threadCache(dependencies);
  let loadingMore = false;

  // After a reload the thread may still be listed while its deletion is in progress.
  const toThreads = (threads: readonly WireThread[]) =>
    threads.filter(({ thread_id: id }) => id !== deleting.get() && id !== get().deleted?.id).map(toThread);

  async function listThreads(): Promise<ThreadList> {
    const limit = Math.min(Math.max(PAGE_OF_THREADS, list().loaded), MOST_AT_ONCE);
    // Pinned threads are listed regardless of age.
    const [newest, pinned] = await Promise.all([
      gateway.threads(limit),
      gateway.threads(PAGE_OF_THREADS, 0, { pinned: true }),
    ]);
    return {
      threads: appendThreads(toThreads(newest), toThreads(pinned)),
      loaded: newest.length,
      more: newest.length === limit,
    };
  }

  async function refreshThreads(): Promise<void> {
    // A response requested earlier must not replace a newer one.
    await queries.cancelQueries({ queryKey: THREADS_KEY });
    const query = { queryKey: THREADS_KEY, queryFn: listThreads, staleTime: 0, ...IMMEDIATE };
    await queries.fetchQuery(query).catch(() => undefined);
  }

  async function loadMoreThreads(): Promise<void> {
    const { loaded, more } = list();
    if (loadingMore || !more) return;
    loadingMore = true;
    try {
      const older = await gateway.threads(PAGE_OF_THREADS, loaded);
      queries.setQueryData<ThreadList>(THREADS_KEY, ({ threads } = NO_THREADS) => ({
        threads: appendThreads(threads, toThreads(older)),
        loaded: loaded + older.length,
        more: older.length === PAGE_OF_THREADS,
      }));
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
    listThreads,
    refreshThreads,
    loadMoreThreads,
    finishRemove,
    ...changeActions(dependencies),

    isListed: (threadId) => list().threads.some(({ id }) => id === threadId),

    reportExportFailure: (before) =>
      dispatch({ type: "threadChanged", change: { kind: "unexported", before } }),

    touch(threadId, status) {
      if (threadId === get().temporaryId) return;
      const known = list().threads.find(({ id }) => id === threadId);
      const { renamed = false, pinned = false, archived = false } = known ?? {};
      const { projectId = null, branchedFrom = null } = known ?? {};
      const title = renamed && known ? known.title : knownTitle(get(), known);
      const updatedAt = new Date(now()).toISOString();
      const kept = { renamed, pinned, archived, projectId, branchedFrom };
      const thread = { id: threadId, title, updatedAt, status, ...kept, waitsFor: null };
      update((threads) => [thread, ...withoutThread(threads, threadId)]);
    },

    remove(thread) {
      void finishRemove(); // the previous one: only the last deletion can be undone
      dispatch({ type: "threadDeleted", thread });
      update((threads) => withoutThread(threads, thread.id));
    },

    undoRemove() {
      const thread = get().deleted;
      if (thread === null) return;
      dispatch({ type: "deletionUndone" });
      update((threads) => insertThread(threads, thread));
    },
  };
}

type ChangeActions = Pick<ThreadActions, "rename" | "pin" | "archive" | "undoChange" | "dismissChange">;

/** Optimistic changes, reverted if the request fails. */
function changeActions(dependencies: Dependencies): ChangeActions {
  const { gateway, store } = dependencies;
  const { get, dispatch } = store;
  const { list, update } = threadCache(dependencies);

  function show(thread: Thread, change: ThreadChange | null): void {
    update((threads) => threads.map((each) => (each.id === thread.id ? thread : each)));
    dispatch({ type: "threadChanged", change });
  }

  async function make(before: Thread, thread: Thread, kind: ThreadChange["kind"] | null): Promise<void> {
    show(thread, kind && { kind, before });
    try {
      await gateway.updateThread(thread.id, {
        title: thread.renamed ? thread.title : null,
        pinned: thread.pinned,
        archived: thread.archived,
      });
    } catch {
      show(before, { kind: "refused", before });
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
      const now = list().threads.find(({ id }) => id === changed.before.id) ?? changed.before;
      await make(now, changed.before, null);
    },
    dismissChange: () => dispatch({ type: "threadChangeDismissed" }),
  };
}

/** Read and change the cached list. */
function threadCache({ queries }: Dependencies) {
  return {
    list: () => queries.getQueryData<ThreadList>(THREADS_KEY) ?? NO_THREADS,
    update(change: (threads: readonly Thread[]) => readonly Thread[]): void {
      queries.setQueryData<ThreadList>(THREADS_KEY, (list = NO_THREADS) => ({
        ...list,
        threads: change(list.threads),
      }));
    },
  };
}

/** Return the title of the open thread, else its first message. */
function knownTitle({ conversation }: Page, known: Thread | undefined): string | null {
  const firstWords = firstOwn(conversation)?.text.trim().split("\n")[0]?.slice(0, 80) || null;
  return conversation.title ?? known?.title ?? firstWords;
}
