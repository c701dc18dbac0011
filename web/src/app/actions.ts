/** What the user can do, and what it takes to do it. */

import type { Gateway, NewRun } from "@/api/gateway";
import { Refused, Unreachable } from "@/api/http";
import type { WireThread } from "@/api/wire";
import { currentModel, type Page, type PageAction, type Problem, type Thread } from "@/app/page";
import type { Preferences } from "@/app/preferences";
import type { Store } from "@/app/store";
import { isActive, type RunError, type RunEvent } from "@/run/reduce";
import { followRun, type Patience, type RunSource } from "@/run/stream";

export interface Surroundings {
  readonly gateway: Gateway;
  readonly store: Store<Page, PageAction>;
  readonly patience: Patience;
  readonly newId: () => string;
  readonly now: () => number;
  /** Changes the address without asking the server. */
  readonly pushPath: (path: string) => void;
  readonly savePreferences: (preferences: Preferences) => void;
}

export interface Actions {
  start(): Promise<void>;
  refreshThreads(): Promise<void>;
  loadModels(): Promise<void>;
  open(threadId: string | null, how?: "push" | "pop"): Promise<void>;
  send(text: string): Promise<void>;
  /** Sends the message again that the server did not take. */
  resend(): Promise<void>;
  stop(): Promise<void>;
  remove(thread: Thread): void;
  undoRemove(): void;
  finishRemove(): Promise<void>;
  prefer(change: Partial<Preferences>): void;
  draft(text: string): void;
  drawer(open: boolean): void;
  setOnline(online: boolean): void;
}

const LISTED_THREADS = 200;

export function createActions(around: Surroundings): Actions {
  const { gateway, store } = around;
  // Leaving a thread ends the reading of its run, not the run.
  let reading = new AbortController();

  const dispatch = store.dispatch;
  const happen = (event: RunEvent) => dispatch({ type: "run", event });

  async function refreshThreads(): Promise<void> {
    try {
      const threads = await gateway.threads(LISTED_THREADS);
      dispatch({ type: "threads listed", threads: threads.map(threadOf) });
    } catch (error) {
      dispatch({ type: "threads failed", problem: problemOf(error) });
    }
  }

  async function loadModels(): Promise<void> {
    try {
      dispatch({ type: "models listed", models: await gateway.models() });
    } catch (error) {
      dispatch({ type: "models failed", problem: problemOf(error) });
      return;
    }
    await loadStarters();
  }

  async function loadStarters(): Promise<void> {
    const model = currentModel(store.get());
    // Without starters the empty page is a little emptier; that is no error to show.
    const starters = await gateway.starters(model?.name ?? null).catch(() => []);
    dispatch({ type: "starters listed", starters });
  }

  async function open(threadId: string | null, how: "push" | "pop" = "push"): Promise<void> {
    reading.abort();
    reading = new AbortController();
    if (how === "push") around.pushPath(threadId === null ? "/" : `/threads/${threadId}`);
    dispatch({ type: "visited", threadId });
    if (threadId !== null) await load(threadId, reading.signal);
  }

  async function load(threadId: string, signal: AbortSignal): Promise<void> {
    try {
      const [values, run] = await Promise.all([gateway.state(threadId), gateway.newestRun(threadId)]);
      if (signal.aborted) return;
      happen({ type: "opened", values, run });
      dispatch({ type: "opened" });
    } catch (error) {
      if (!signal.aborted) dispatch({ type: "open failed", problem: problemOf(error) });
      return;
    }
    const { run } = store.get().conversation;
    if (run.id === null || !isActive(run)) return;
    const runId = run.id;
    const join = (after: number | null, until: AbortSignal) => gateway.joinRun(threadId, runId, after, until);
    await read(
      threadId,
      { connect: (until) => join(null, until), rejoin: (_, after, until) => join(after, until) },
      signal,
    );
  }

  async function send(text: string): Promise<void> {
    if (text.trim() === "" || isActive(store.get().conversation.run)) return;
    await submit(around.newId(), text);
  }

  async function resend(): Promise<void> {
    const { unsent, settled } = store.get().conversation;
    const message = unsent === null ? undefined : settled.get(unsent);
    // The same id: should the server have taken it after all, it replaces itself.
    if (message !== undefined) await submit(message.id, message.text);
  }

  async function submit(messageId: string, text: string): Promise<void> {
    dispatch({ type: "drafted", text: "" });
    const threadId = store.get().threadId ?? beginThread();
    const { signal } = reading;
    happen({ type: "sent", messageId, text, at: around.now() });
    touch(threadId, "busy");

    const run = newRun(store.get(), messageId, text);
    await read(
      threadId,
      {
        connect: (until) => gateway.startRun(threadId, run, until),
        rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
      },
      signal,
      messageId,
    );
  }

  /** A thread's address exists before the server knows the thread, so that it can be shared and reloaded at once. */
  function beginThread(): string {
    const threadId = around.newId();
    reading.abort();
    reading = new AbortController();
    around.pushPath(`/threads/${threadId}`);
    dispatch({ type: "visited", threadId });
    dispatch({ type: "opened" });
    return threadId;
  }

  async function read(
    threadId: string,
    source: RunSource,
    signal: AbortSignal,
    messageId?: string,
  ): Promise<void> {
    try {
      for await (const heard of followRun(source, around.patience, signal)) {
        if (heard.type !== "frame") happen(heard);
        else take({ type: "received", seq: heard.seq, at: around.now(), frame: heard.frame });
      }
    } catch (error) {
      if (signal.aborted) return;
      const taken = store.get().conversation.run.id !== null;
      const reason = runErrorOf(error);
      happen(
        taken || messageId === undefined
          ? { type: "broken", error: reason }
          : { type: "refused", messageId, error: reason },
      );
    }
    if (signal.aborted) return;
    touch(threadId, store.get().conversation.run.phase === "failed" ? "error" : "idle");
    await refreshThreads();
  }

  function take(event: Extract<RunEvent, { type: "received" }>): void {
    store.dispatchQuietly({ type: "run", event });
    const title = event.frame.event === "changes" ? event.frame.data.values?.title : undefined;
    const { threadId } = store.get();
    if (title != null && threadId !== null) touch(threadId, "busy");
  }

  /** Puts the thread at the head of the list with what this page knows of it. */
  function touch(threadId: string, status: Thread["status"]): void {
    const page = store.get();
    const listed =
      page.threads.phase === "ready" ? page.threads.value.find(({ id }) => id === threadId) : undefined;
    const title = page.conversation.title ?? listed?.title ?? firstWords(page);
    const updatedAt = new Date(around.now()).toISOString();
    dispatch({ type: "thread touched", thread: { id: threadId, title, updatedAt, status } });
  }

  async function stop(): Promise<void> {
    const { threadId, conversation } = store.get();
    const { id, stopping } = conversation.run;
    if (threadId === null || id === null || stopping || !isActive(conversation.run)) return;
    happen({ type: "stopping" });
    // A run that has just ended cannot be cancelled; its end is on the stream already.
    await gateway.cancelRun(threadId, id).catch(() => undefined);
  }

  function remove(thread: Thread): void {
    void finishRemove();
    dispatch({ type: "thread deleted", thread });
    if (store.get().threadId === thread.id) void open(null);
  }

  function undoRemove(): void {
    const thread = store.get().deleted;
    if (thread !== null) dispatch({ type: "deletion undone", thread });
  }

  async function finishRemove(): Promise<void> {
    const thread = store.get().deleted;
    if (thread === null) return;
    dispatch({ type: "deletion final", threadId: thread.id });
    try {
      await gateway.deleteThread(thread.id);
    } catch (error) {
      const gone = error instanceof Refused && error.status === 404;
      if (!gone) await refreshThreads();
    }
  }

  function prefer(change: Partial<Preferences>): void {
    dispatch({ type: "preferred", change });
    around.savePreferences(store.get().preferences);
    if (change.model !== undefined) void loadStarters();
  }

  return {
    async start() {
      const { threadId } = store.get();
      await Promise.all([
        loadModels(),
        refreshThreads(),
        threadId === null ? undefined : load(threadId, reading.signal),
      ]);
    },
    refreshThreads,
    loadModels,
    open,
    send,
    resend,
    stop,
    remove,
    undoRemove,
    finishRemove,
    prefer,
    draft: (text) => dispatch({ type: "drafted", text }),
    drawer: (isOpen) => dispatch({ type: "drawer", open: isOpen }),
    setOnline(online) {
      dispatch({ type: "online", online });
      if (!online) return;
      void refreshThreads();
      if (store.get().models.phase === "failed") void loadModels();
    },
  };
}

/** The thread an address names: `/threads/<id>`, anything else is a new one. */
export function threadInPath(path: string): string | null {
  const id = /^\/threads\/([^/]+)\/?$/.exec(path)?.[1];
  return id === undefined ? null : decodeURIComponent(id);
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

function newRun(page: Page, messageId: string, text: string): NewRun {
  const model = currentModel(page);
  return {
    messageId,
    text,
    model: model?.name ?? null,
    thinking: model?.supports_thinking === true ? page.preferences.thinking : null,
  };
}

function firstWords({ conversation }: Page): string | null {
  const first = conversation.settled.get(conversation.order[0] ?? "");
  return first?.text.trim().split("\n")[0]?.slice(0, 80) || null;
}

function problemOf(error: unknown): Problem {
  if (error instanceof Unreachable) return "unreachable";
  return error instanceof Refused && error.status === 404 ? "missing" : "refused";
}

function runErrorOf(error: unknown): RunError {
  if (error instanceof Error) return { name: error.name, message: error.message };
  return { name: "Error", message: String(error) };
}
