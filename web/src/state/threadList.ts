/** Query of the thread list. */

import { useQuery } from "@tanstack/react-query";
import type { WaitsFor, WireThread } from "@/api/wire";
import { useActions, usePage } from "@/state/context";
import { IMMEDIATE, type LoadState, loadState } from "@/state/queries";

export interface Thread {
  readonly id: string;
  readonly title: string | null;
  readonly updatedAt: string;
  readonly status: WireThread["status"];
  /** The user set the title; generated titles do not replace it. */
  readonly renamed: boolean;
  readonly pinned: boolean;
  readonly archived: boolean;
  readonly waitsFor: WaitsFor | null;
  readonly projectId: string | null;
  /** Id of the thread it was copied from. */
  readonly branchedFrom: string | null;
}

export interface ThreadList {
  readonly threads: readonly Thread[];
  /** Number of threads loaded by age; pinned ones come on top. */
  readonly loaded: number;
  /** The server has more threads. */
  readonly more: boolean;
}

export const THREADS_KEY: readonly string[] = ["threads"];
export const NO_THREADS: ThreadList = { threads: [], loaded: 0, more: false };

// Polling intervals of the thread list, with and without active threads.
const ACTIVE_MS = 5000;
const IDLE_MS = 20_000;
const RECENT_MS = 30_000;

export function useThreads(): LoadState<readonly Thread[]> {
  const list = useThreadsQuery(false);
  return list.phase === "ready" ? { phase: "ready", value: list.value.threads } : list;
}

/** Return a listed thread. */
export function useThread(threadId: string | null): Thread | undefined {
  const threads = useThreads();
  return threads.phase === "ready" ? threads.value.find(({ id }) => id === threadId) : undefined;
}

/** Refetch the list for status and title changes made elsewhere; used once, by the whole page. */
export function useThreadPolling(): void {
  useThreadsQuery(true);
}

function useThreadsQuery(polls: boolean): LoadState<ThreadList> {
  const { listThreads } = useActions();
  const notify = usePage((page) => page.preferences.notify);
  const query = useQuery({
    queryKey: THREADS_KEY,
    queryFn: listThreads,
    staleTime: 0,
    refetchOnMount: false,
    refetchOnWindowFocus: polls,
    // The polling observer renders nothing.
    ...(polls && { notifyOnChangeProps: [] }),
    // Notifications need the list while the page is hidden.
    refetchIntervalInBackground: notify,
    refetchInterval: polls
      ? ({ state }) =>
          (state.data as ThreadList | undefined)?.threads.some(isChanging) ? ACTIVE_MS : IDLE_MS
      : false,
    ...IMMEDIATE,
  });
  return loadState(query);
}

function isChanging({ status, updatedAt }: Thread): boolean {
  return status === "busy" || Date.now() - Date.parse(updatedAt) < RECENT_MS;
}

export function toThread(wire: WireThread): Thread {
  const {
    thread_id: id,
    updated_at: updatedAt,
    status,
    metadata,
    values,
    waits_for: waitsFor = null,
    project_id: projectId = null,
  } = wire;
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
    projectId,
    branchedFrom: typeof metadata.branched_from === "string" ? metadata.branched_from : null,
  };
}

export function withoutThread(threads: readonly Thread[], id: string): readonly Thread[] {
  return threads.filter((thread) => thread.id !== id);
}

/** Append threads that are not listed yet. */
export function appendThreads(threads: readonly Thread[], next: readonly Thread[]): readonly Thread[] {
  const known = new Set(threads.map(({ id }) => id));
  return [...threads, ...next.filter(({ id }) => !known.has(id))];
}

/** Insert by time of update, newest first. */
export function insertThread(threads: readonly Thread[], thread: Thread): readonly Thread[] {
  return [...withoutThread(threads, thread.id), thread].sort((a, b) =>
    b.updatedAt.localeCompare(a.updatedAt),
  );
}
