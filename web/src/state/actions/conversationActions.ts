/** Actions of the open thread: load, send, stop. */

import type { NewRun, RunSettings } from "@/api/gateway";
import { type MultitaskStrategy, type QueuedMessage, queuedMessageOf } from "@/api/queuedMessage";
import type { SentFile } from "@/api/sentFiles";
import type { Decision, ModelInfo, WireRun } from "@/api/wire";
import { selectBranch } from "@/run/branches";
import { isActive, type RunEvent } from "@/run/reduce";
import type { RunSource } from "@/run/stream";
import type { Dependencies } from "@/state/actions/dependencies";
import type { ModelChoice } from "@/state/actions/preferenceActions";
import type { RunReader } from "@/state/actions/runReader";
import type { ThreadActions } from "@/state/actions/threadActions";
import { leaveTemporary } from "@/state/actions/workspaceActions";
import { rememberMode, settingsFor } from "@/state/modes";
import { currentDraft, currentMode, type Page } from "@/state/page";
import { toProblem } from "@/state/queries";
import { pathOf } from "@/state/urls";

/** Settings of one message. */
export interface SendSettings {
  readonly planMode?: boolean;
  readonly files?: readonly SentFile[];
  /** Effect on the active run, if there is one. */
  readonly strategy?: MultitaskStrategy;
  /** Stays in the context when the thread is summarized. */
  readonly pinned?: boolean;
}

export interface ConversationActions {
  open(threadId: string | null, how?: "push" | "pop"): Promise<void>;
  /** Load the open thread and join its active run. */
  reload(): Promise<void>;
  /** Load the previous page of messages. */
  loadEarlier(): Promise<void>;
  draft(text: string): void;
  send(text: string, settings?: SendSettings): Promise<void>;
  /** Resend a message that failed to send, with the same settings. */
  resend(): Promise<void>;
  /** Cancel a queued message. */
  cancelQueued(queued: QueuedMessage): Promise<void>;
  /** Submit one decision per requested action, in order. */
  decide(decisions: readonly Decision[]): Promise<void>;
  stop(): Promise<void>;
  /** Return the open thread; create one and move the draft to it if there is none. */
  ensureThread(): string;
}

export function conversationActions(
  dependencies: Dependencies,
  threads: ThreadActions,
  models: ModelChoice,
  reader: RunReader,
): ConversationActions {
  const { gateway, store, newId, now, pushPath, savePreferences } = dependencies;
  const { get, dispatch } = store;
  const emit = (event: RunEvent) => dispatch({ type: "run", event });

  async function open(threadId: string | null, how: "push" | "pop" = "push"): Promise<void> {
    // Update the store first so that the URL listener has nothing to do.
    reader.leave();
    dispatch({ type: "visited", threadId, isListed: threads.isListed(threadId) });
    leaveTemporary(dependencies, threadId);
    if (how === "push") pushPath(pathOf(threadId));
    await reload();
  }

  /** Load a thread; returns true on success. */
  async function load(threadId: string, signal: AbortSignal): Promise<boolean> {
    try {
      const [values, newest] = await Promise.all([
        gateway.messagePage(threadId),
        gateway.newestRun(threadId),
      ]);
      // Other runs can only be queued behind a pending one.
      const unfinished = newest?.status === "pending" ? await gateway.unfinishedRuns(threadId) : [];
      const failed = newest?.status === "error" ? await namedError(threadId, newest) : newest;
      if (signal.aborted) return false;
      const [run = failed, ...others] = unfinished;
      const queued = others.flatMap((each) => queuedMessageOf(each.run_id, each.metadata) ?? []);
      emit({ type: "opened", values, run, queued });
      dispatch({ type: "opened" });
      return true;
    } catch (error) {
      if (!signal.aborted) dispatch({ type: "openFailed", problem: toProblem(error) });
      return false;
    }
  }

  /** The name of an error tells what to do about it; its text is enough otherwise. */
  async function namedError(threadId: string, run: WireRun): Promise<WireRun> {
    const error = await gateway.runError(threadId, run.run_id).catch(() => null);
    return error === null ? run : { ...run, error };
  }

  /** Load in progress, shared by concurrent callers. */
  let currentLoad: { signal: AbortSignal; loaded: Promise<boolean>; all: Promise<void> } | null = null;

  function reload(): Promise<void> {
    const { threadId } = get();
    const signal = reader.signal();
    if (threadId === null) return Promise.resolve();
    if (currentLoad?.signal === signal) return currentLoad.all;
    const loaded = load(threadId, signal).finally(() => {
      if (currentLoad?.loaded === loaded) currentLoad = null;
    });
    const all = loaded.then((done) => (done ? joinRun(threadId) : undefined));
    currentLoad = { signal, loaded, all };
    return all;
  }

  async function joinRun(threadId: string): Promise<void> {
    const { run } = get().conversation;
    if (run.id !== null && isActive(run))
      await reader.read(threadId, reader.joinSource(threadId, run.id, run.lastSeq || null));
  }

  /** Wait for a load in progress so that it does not overwrite the new message. */
  async function catchUp(): Promise<void> {
    const { stale, opening } = get();
    if (!stale && opening.phase !== "loading") return;
    void reload();
    await currentLoad?.loaded;
  }

  /** True while a message waits to be sent; a second send is the same message. */
  let isPreparing = false;

  /** Wait for the thread and the models; returns true if a message can be sent. */
  async function readyToSend(): Promise<boolean> {
    if (isPreparing) return false;
    const signal = reader.signal();
    isPreparing = true;
    await Promise.all([catchUp(), models.ready()]);
    isPreparing = false;
    return !signal.aborted && get().opening.phase === "ready";
  }

  /** The client picks the thread id so that the URL does not change later. */
  function beginThread(): string {
    const threadId = newId();
    const mode = currentMode(get());
    reader.leave();
    dispatch({ type: "visited", threadId, isListed: false });
    dependencies.temporary.set(get().temporaryId);
    pushPath(pathOf(threadId));
    dispatch({ type: "opened" });
    const modes = rememberMode(get().preferences.modes, threadId, mode);
    dispatch({ type: "preferencesChanged", change: { modes } });
    savePreferences(get().preferences);
    return threadId;
  }

  function starting(threadId: string, run: NewRun): RunSource {
    return {
      async connect(until) {
        if (get().temporaryId === threadId) await gateway.makeTemporary(threadId);
        return gateway.startRun(threadId, run, until);
      },
      rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
    };
  }

  async function submit(run: NewRun, keeps?: readonly string[]): Promise<void> {
    const { messageId, text, files = [], planMode, subagents = false, model } = run;
    // A message sent from elsewhere keeps the draft.
    if (text === currentDraft(get())) dispatch({ type: "draftChanged", text: "" });
    const threadId = get().threadId ?? beginThread();
    const kept = keeps === undefined ? {} : { keeps };
    emit({ type: "sent", messageId, text, files, planMode, subagents, model, at: now(), ...kept });
    threads.touch(threadId, "busy");
    await reader.read(threadId, starting(threadId, run));
  }

  async function add(run: NewRun, strategy: MultitaskStrategy): Promise<void> {
    const { threadId } = get();
    if (threadId === null) return;
    const signal = reader.signal();
    const { messageId, text, planMode, subagents = false } = run;
    const queued: QueuedMessage = { messageId, text, strategy, runId: null, planMode, subagents };
    if (run.text === currentDraft(get())) dispatch({ type: "draftChanged", text: "" });
    emit({ type: "queued", queued });
    try {
      const { run_id: runId } = await gateway.addRun(threadId, run, queued);
      if (signal.aborted) return;
      emit({ type: "queueAccepted", messageId: run.messageId, runId });
    } catch {
      if (signal.aborted) return;
      emit({ type: "dequeued", messageId: run.messageId });
      // Put the text back into the composer.
      if (currentDraft(get()) === "") dispatch({ type: "draftChanged", text: run.text });
      return;
    }
    if (!isActive(get().conversation.run)) await reader.readQueued(threadId);
  }

  /** Return the checkpoint of a selected earlier version and the messages before it. */
  async function selectedCheckpoint(): Promise<{ checkpoint: string; keeps: readonly string[] } | null> {
    const { threadId, conversation } = get();
    if (threadId === null || conversation.rewoundRuns.size === 0) return null;
    const { ids } = selectBranch(conversation, conversation.rewoundRuns);
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
      dispatch({ type: "draftChanged", text: "" });
      const threadId = beginThread();
      dispatch({ type: "draftChanged", text });
      return threadId;
    },

    async loadEarlier() {
      const { threadId, conversation } = get();
      const { before, phase } = conversation.earlier;
      if (threadId === null || before === null || phase === "loading") return;
      const signal = reader.signal();
      emit({ type: "earlierRequested" });
      try {
        const page = await gateway.messagePage(threadId, before);
        if (!signal.aborted) emit({ type: "earlierLoaded", page });
      } catch {
        if (!signal.aborted) emit({ type: "earlierFailed" });
      }
    },

    draft: (text) => dispatch({ type: "draftChanged", text }),

    async send(text, { planMode = false, files = [], strategy, pinned = false } = {}) {
      if ((text.trim() === "" && files.length === 0) || !(await readyToSend())) return;
      const { conversation, preferences } = get();
      const settings = settingsOf(get(), models.current());
      const run = {
        messageId: newId(),
        text,
        files,
        pinned,
        ...settings,
        planMode: planMode || settings.planMode,
      };
      if (isActive(conversation.run)) return add(run, strategy ?? preferences.strategy);
      const where = await selectedCheckpoint();
      if (where === null) return submit(run);
      return submit({ ...run, checkpoint: where.checkpoint }, where.keeps);
    },

    async resend() {
      if (!(await readyToSend())) return;
      const { unsent, settled, run } = get().conversation;
      const message = settled.get([...unsent].at(-1) ?? "");
      if (message === undefined) return;
      const { id: messageId, text, files } = message;
      // Reusing the id makes the resend idempotent.
      await submit({
        messageId,
        text,
        files,
        ...settingsOf(get(), models.current()),
        planMode: run.planMode,
      });
    },

    async cancelQueued({ messageId, runId }) {
      const { threadId } = get();
      emit({ type: "dequeued", messageId });
      if (threadId !== null && runId !== null)
        await gateway.cancelRun(threadId, runId).catch(() => undefined);
    },

    async decide(decisions) {
      const { threadId, conversation } = get();
      const { approval, run } = conversation;
      if (threadId === null || approval === null || isActive(run)) return;
      const signal = reader.signal();
      emit({ type: "decided", model: models.current()?.name ?? null, at: now() });
      threads.touch(threadId, "busy");
      const { planMode, subagents } = run;
      const resumed = {
        decisions,
        requests: approval.requests,
        ...settingsOf(get(), models.current()),
        planMode,
        subagents,
      };
      await reader.read(threadId, {
        connect: (until) => gateway.resumeRun(threadId, resumed, until),
        rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
      });
      // Decided in another page: reload.
      const { error } = get().conversation.run;
      if (error?.name === "Conflict" && !signal.aborted) await reload();
    },

    async stop() {
      const { threadId, conversation } = get();
      const { id, stopping } = conversation.run;
      if (threadId === null || id === null || stopping || !isActive(conversation.run)) return;
      emit({ type: "stopping" });
      // The run may have just ended; its end event is already in the stream.
      await gateway.cancelRun(threadId, id).catch(() => undefined);
    },
  };
}

/** Return the settings of the next message. */
export function settingsOf(page: Page, model: ModelInfo | null): RunSettings {
  return settingsFor(currentMode(page), model);
}
