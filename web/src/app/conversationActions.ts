/** The open thread: reading it, speaking in it, stopping it. */

import type { NewRun, RunSettings } from "@/api/gateway";
import type { Decision } from "@/api/wire";
import { pathOf } from "@/app/address";
import type { ModelActions } from "@/app/modelActions";
import { remembered, settingsFor } from "@/app/modes";
import { currentDraft, currentMode, currentModel, type Page } from "@/app/page";
import type { Reading } from "@/app/reading";
import { problemOf, type Surroundings } from "@/app/surroundings";
import type { ThreadActions } from "@/app/threadActions";
import { wayThrough } from "@/run/branches";
import type { SentFile } from "@/run/files";
import { isActive, type RunEvent } from "@/run/reduce";
import type { RunSource } from "@/run/stream";
import { type Manner, type Waiting, waitingOf } from "@/run/waiting";

/** How one message is answered. */
export interface SendSettings {
  readonly planMode?: boolean;
  readonly files?: readonly SentFile[];
  /** What it does to the run under way, if there is one. */
  readonly manner?: Manner;
}

export interface ConversationActions {
  open(threadId: string | null, how?: "push" | "pop"): Promise<void>;
  /** Loads the open thread and joins its run, if one is under way. */
  reload(): Promise<void>;
  /** Loads what was said before what is known. */
  loadEarlier(): Promise<void>;
  draft(text: string): void;
  send(text: string, settings?: SendSettings): Promise<void>;
  /** Sends the message again that the server did not take, as it was sent before. */
  resend(): Promise<void>;
  /** Takes back a message that waits. */
  withdraw(waiting: Waiting): Promise<void>;
  /** Says what becomes of each action the agent asks about, in their order. */
  decide(decisions: readonly Decision[]): Promise<void>;
  stop(): Promise<void>;
  /** The open thread, or a new one with what is being written: for what must be somewhere before anything is said. */
  ensureThread(): string;
}

export function conversationActions(
  around: Surroundings,
  threads: ThreadActions,
  models: ModelActions,
  reading: Reading,
): ConversationActions {
  const { gateway, store, newId, now, pushPath, savePreferences } = around;
  const { get, dispatch } = store;
  const happen = (event: RunEvent) => dispatch({ type: "run", event });

  async function open(threadId: string | null, how: "push" | "pop" = "push"): Promise<void> {
    // The store goes first: whoever watches the address then finds nothing left to do.
    reading.leave();
    dispatch({ type: "visited", threadId });
    if (how === "push") pushPath(pathOf(threadId));
    await reload();
  }

  /** Loads a thread; whether that could be done. */
  async function load(threadId: string, signal: AbortSignal): Promise<boolean> {
    try {
      const [values, newest] = await Promise.all([gateway.said(threadId), gateway.newestRun(threadId)]);
      // Only behind a run that waits can there be others.
      const unfinished = newest?.status === "pending" ? await gateway.unfinishedRuns(threadId) : [];
      if (signal.aborted) return false;
      const [run = newest, ...others] = unfinished;
      const waiting = others.flatMap((each) => waitingOf(each.run_id, each.metadata) ?? []);
      happen({ type: "opened", values, run, waiting });
      dispatch({ type: "opened" });
      return true;
    } catch (error) {
      if (!signal.aborted) dispatch({ type: "open failed", problem: problemOf(error) });
      return false;
    }
  }

  /** The look at the open thread that is under way: whoever wants another meanwhile shares it. */
  let look: { signal: AbortSignal; loaded: Promise<boolean>; all: Promise<void> } | null = null;

  function reload(): Promise<void> {
    const { threadId } = get();
    const signal = reading.signal();
    if (threadId === null) return Promise.resolve();
    if (look?.signal === signal) return look.all;
    const loaded = load(threadId, signal).finally(() => {
      if (look?.loaded === loaded) look = null;
    });
    const all = loaded.then((done) => (done ? joinRun(threadId) : undefined));
    look = { signal, loaded, all };
    return all;
  }

  async function joinRun(threadId: string): Promise<void> {
    const { run } = get().conversation;
    if (run.id !== null && isActive(run))
      await reading.read(threadId, reading.joining(threadId, run.id, run.lastSeq || null));
  }

  /** What is shown may be old or not there yet: a look that was begun before must not take away what is said now. */
  async function catchUp(): Promise<void> {
    const { stale, opening } = get();
    if (!stale && opening.phase !== "loading") return;
    void reload();
    await look?.loaded;
  }

  /** Whether a message waits for what it needs to be sent; sending it again meanwhile means the same message. */
  let holding = false;

  /** Waits until the thread and the models are known; whether something can be said then. */
  async function readyToSend(): Promise<boolean> {
    if (holding) return false;
    const signal = reading.signal();
    holding = true;
    await Promise.all([catchUp(), models.modelsLooked()]);
    holding = false;
    return !signal.aborted && get().opening.phase === "ready";
  }

  /** A thread's address exists before the server knows the thread, so that the page never changes it under the user. */
  function beginThread(): string {
    const threadId = newId();
    const mode = currentMode(get());
    reading.leave();
    dispatch({ type: "visited", threadId });
    pushPath(pathOf(threadId));
    dispatch({ type: "opened" });
    const modes = remembered(get().preferences.modes, threadId, mode);
    dispatch({ type: "preferred", change: { modes } });
    savePreferences(get().preferences);
    return threadId;
  }

  function starting(threadId: string, run: NewRun): RunSource {
    return {
      connect: (until) => gateway.startRun(threadId, run, until),
      rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
    };
  }

  async function submit(run: NewRun, keeps?: readonly string[]): Promise<void> {
    const { messageId, text, files = [], planMode, subagents = false } = run;
    // What is sent without having been written stays apart from what is being written.
    if (text === currentDraft(get())) dispatch({ type: "drafted", text: "" });
    const threadId = get().threadId ?? beginThread();
    const kept = keeps === undefined ? {} : { keeps };
    happen({ type: "sent", messageId, text, files, planMode, subagents, at: now(), ...kept });
    threads.touch(threadId, "busy");
    await reading.read(threadId, starting(threadId, run));
  }

  async function add(run: NewRun, manner: Manner): Promise<void> {
    const { threadId } = get();
    if (threadId === null) return;
    const signal = reading.signal();
    const { messageId, text, planMode, subagents = false } = run;
    const waiting: Waiting = { messageId, text, manner, runId: null, planMode, subagents };
    if (run.text === currentDraft(get())) dispatch({ type: "drafted", text: "" });
    happen({ type: "waits", waiting });
    try {
      const { run_id: runId } = await gateway.addRun(threadId, run, waiting);
      if (signal.aborted) return;
      happen({ type: "taken", messageId: run.messageId, runId });
    } catch {
      if (signal.aborted) return;
      happen({ type: "withdrawn", messageId: run.messageId });
      // Nothing that was written is lost: it stands where it can be sent again.
      if (currentDraft(get()) === "") dispatch({ type: "drafted", text: run.text });
      return;
    }
    if (!isActive(get().conversation.run)) await reading.readWaiting(threadId);
  }

  /** Where a message goes on from an earlier version, and what of the conversation is before it. */
  async function whereLooking(): Promise<{ checkpoint: string; keeps: readonly string[] } | null> {
    const { threadId, conversation } = get();
    if (threadId === null || conversation.undone.size === 0) return null;
    const { ids } = wayThrough(conversation, conversation.undone);
    const runId = conversation.settled.get(ids.at(-1) ?? "")?.runId ?? null;
    const checkpoint = runId === null ? null : await gateway.endOf(threadId, runId).catch(() => null);
    return checkpoint === null ? null : { checkpoint, keeps: ids };
  }

  return {
    open,
    reload,

    ensureThread() {
      const known = get().threadId;
      if (known !== null) return known;
      const text = currentDraft(get());
      dispatch({ type: "drafted", text: "" });
      const threadId = beginThread();
      dispatch({ type: "drafted", text });
      return threadId;
    },

    async loadEarlier() {
      const { threadId, conversation } = get();
      const { before, phase } = conversation.earlier;
      if (threadId === null || before === null || phase === "loading") return;
      const signal = reading.signal();
      happen({ type: "looking earlier" });
      try {
        const said = await gateway.said(threadId, before);
        if (!signal.aborted) happen({ type: "earlier", said });
      } catch {
        if (!signal.aborted) happen({ type: "earlier failed" });
      }
    },

    draft: (text) => dispatch({ type: "drafted", text }),

    async send(text, { planMode = false, files = [], manner } = {}) {
      if ((text.trim() === "" && files.length === 0) || !(await readyToSend())) return;
      const { conversation, preferences } = get();
      const settings = settingsOf(get());
      const run = { messageId: newId(), text, files, ...settings, planMode: planMode || settings.planMode };
      if (isActive(conversation.run)) return add(run, manner ?? preferences.manner);
      const where = await whereLooking();
      if (where === null) return submit(run);
      return submit({ ...run, checkpoint: where.checkpoint }, where.keeps);
    },

    async resend() {
      if (!(await readyToSend())) return;
      const { unsent, settled, run } = get().conversation;
      const message = settled.get([...unsent].at(-1) ?? "");
      if (message === undefined) return;
      const { id: messageId, text, files } = message;
      // The same id: should the server have taken it after all, it replaces itself.
      await submit({ messageId, text, files, ...settingsOf(get()), planMode: run.planMode });
    },

    async withdraw({ messageId, runId }) {
      const { threadId } = get();
      happen({ type: "withdrawn", messageId });
      if (threadId !== null && runId !== null)
        await gateway.cancelRun(threadId, runId).catch(() => undefined);
    },

    async decide(decisions) {
      const { threadId, conversation } = get();
      const { approval, run } = conversation;
      if (threadId === null || approval === null || isActive(run)) return;
      const signal = reading.signal();
      happen({ type: "decided" });
      threads.touch(threadId, "busy");
      const { planMode, subagents } = run;
      const resumed = { decisions, requests: approval.requests, ...settingsOf(get()), planMode, subagents };
      await reading.read(threadId, {
        connect: (until) => gateway.resumeRun(threadId, resumed, until),
        rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
      });
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

/** How the next message is answered. */
export function settingsOf(page: Page): RunSettings {
  return settingsFor(currentMode(page), currentModel(page));
}
