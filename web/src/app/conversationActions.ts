/** The open thread: reading it, speaking in it, stopping it. */

import type { NewRun, ResumedRun, RunSettings } from "@/api/gateway";
import type { Decision } from "@/api/wire";
import { pathOf } from "@/app/address";
import { currentDraft, currentModel, type Page } from "@/app/page";
import { problemOf, type Surroundings } from "@/app/surroundings";
import type { ThreadActions } from "@/app/threadActions";
import { isActive, type RunError, type RunEvent } from "@/run/reduce";
import { followRun, type RunSource } from "@/run/stream";

/** How one message is answered. */
export interface SendSettings {
  readonly planMode?: boolean;
}

export interface ConversationActions {
  open(threadId: string | null, how?: "push" | "pop"): Promise<void>;
  /** Loads the open thread and joins its run, if one is under way. */
  reload(): Promise<void>;
  draft(text: string): void;
  send(text: string, settings?: SendSettings): Promise<void>;
  /** Sends the message again that the server did not take, as it was sent before. */
  resend(): Promise<void>;
  /** Says what becomes of each action the agent asks about, in their order. */
  decide(decisions: readonly Decision[]): Promise<void>;
  stop(): Promise<void>;
}

export function conversationActions(around: Surroundings, threads: ThreadActions): ConversationActions {
  const { gateway, store, newId, now, pushPath } = around;
  const { get, dispatch } = store;
  const happen = (event: RunEvent) => dispatch({ type: "run", event });
  const read = runReader(around, threads);
  // Leaving a thread ends the reading of its run, not the run.
  let stay = new AbortController();

  function goTo(threadId: string | null): void {
    stay.abort();
    stay = new AbortController();
    dispatch({ type: "visited", threadId });
  }

  async function open(threadId: string | null, how: "push" | "pop" = "push"): Promise<void> {
    // The store goes first: whoever watches the address then finds nothing left to do.
    goTo(threadId);
    if (how === "push") pushPath(pathOf(threadId));
    await reload();
  }

  async function reload(): Promise<void> {
    const { threadId } = get();
    const { signal } = stay;
    if (threadId === null) return;
    try {
      const [values, run] = await Promise.all([gateway.said(threadId), gateway.newestRun(threadId)]);
      if (signal.aborted) return;
      happen({ type: "opened", values, run });
      dispatch({ type: "opened" });
    } catch (error) {
      if (!signal.aborted) dispatch({ type: "open failed", problem: problemOf(error) });
      return;
    }
    const { run } = get().conversation;
    if (run.id !== null && isActive(run)) await read(threadId, joining(threadId, run.id), signal);
  }

  function joining(threadId: string, runId: string): RunSource {
    return {
      connect: (until) => gateway.joinRun(threadId, runId, null, until),
      rejoin: (_, after, until) => gateway.joinRun(threadId, runId, after, until),
    };
  }

  function starting(threadId: string, run: NewRun | ResumedRun): RunSource {
    return {
      connect: (until) =>
        "decisions" in run ? gateway.resumeRun(threadId, run, until) : gateway.startRun(threadId, run, until),
      rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
    };
  }

  /** A thread's address exists before the server knows the thread, so that the page never changes it under the user. */
  function beginThread(): string {
    const threadId = newId();
    goTo(threadId);
    pushPath(pathOf(threadId));
    dispatch({ type: "opened" });
    return threadId;
  }

  async function submit(messageId: string, text: string, planMode: boolean): Promise<void> {
    // What is sent without having been written stays apart from what is being written.
    if (text === currentDraft(get())) dispatch({ type: "drafted", text: "" });
    const threadId = get().threadId ?? beginThread();
    const { signal } = stay;
    happen({ type: "sent", messageId, text, planMode, at: now() });
    threads.touch(threadId, "busy");
    const run = { messageId, text, ...settingsOf(get(), planMode) };
    await read(threadId, starting(threadId, run), signal);
  }

  return {
    open,
    reload,

    draft: (text) => dispatch({ type: "drafted", text }),

    async send(text, { planMode = false } = {}) {
      const { opening, conversation } = get();
      if (text.trim() === "" || opening.phase !== "ready" || isActive(conversation.run)) return;
      await submit(newId(), text, planMode);
    },

    async resend() {
      const { unsent, settled, run } = get().conversation;
      const message = settled.get([...unsent].at(-1) ?? "");
      // The same id: should the server have taken it after all, it replaces itself.
      if (message !== undefined) await submit(message.id, message.text, run.planMode);
    },

    async decide(decisions) {
      const { threadId, conversation } = get();
      const { approval, run } = conversation;
      if (threadId === null || approval === null || isActive(run)) return;
      const { signal } = stay;
      happen({ type: "decided" });
      threads.touch(threadId, "busy");
      const resumed = { decisions, ...settingsOf(get(), run.planMode) };
      await read(threadId, starting(threadId, resumed), signal);
      // Somebody else has decided: what stands here is old.
      const { error } = get().conversation.run;
      if (error?.name === "Conflict" && !signal.aborted) await reload();
    },

    async stop() {
      const { threadId, conversation } = get();
      const { id, stopping } = conversation.run;
      if (threadId === null || id === null || stopping || !isActive(conversation.run)) return;
      happen({ type: "stopping" });
      // A run that has just ended cannot be cancelled; its end is on the stream already.
      await gateway.cancelRun(threadId, id).catch(() => undefined);
    },
  };
}

type ReadRun = (threadId: string, source: RunSource, signal: AbortSignal) => Promise<void>;

/** Reads a run into the store until it ends or the thread is left. */
function runReader({ store, patience, now }: Surroundings, threads: ThreadActions): ReadRun {
  const { get, dispatch, dispatchQuietly } = store;

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

  return async (threadId, source, signal) => {
    try {
      await follow(threadId, source, signal);
    } catch (error) {
      if (signal.aborted) return;
      dispatch({ type: "run", event: { type: "broken", error: runErrorOf(error) } });
    }
    if (signal.aborted) return;
    threads.touch(threadId, get().conversation.run.phase === "failed" ? "error" : "idle");
    await threads.refreshThreads();
  };
}

function settingsOf(page: Page, planMode: boolean): RunSettings {
  const model = currentModel(page);
  return {
    model: model?.name ?? null,
    thinking: model?.supports_thinking === true ? page.preferences.thinking : null,
    planMode,
  };
}

function runErrorOf(error: unknown): RunError {
  if (error instanceof Error) return { name: error.name, message: error.message };
  return { name: "Error", message: String(error) };
}
