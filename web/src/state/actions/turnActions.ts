/** Actions on messages: regenerate, edit, branch. */

import { selectBranch } from "@/run/branches";
import { isOwn, type Message } from "@/run/message";
import { isActive, type RunEvent } from "@/run/reduce";
import { settingsOf } from "@/state/actions/conversationActions";
import type { Dependencies } from "@/state/actions/dependencies";
import type { ModelChoice } from "@/state/actions/preferenceActions";
import type { RunReader } from "@/state/actions/runReader";
import type { ThreadActions } from "@/state/actions/threadActions";

export interface TurnActions {
  /** Regenerate the response to a message; `messageId` may be any part of the turn. */
  regenerate(messageId: string): Promise<void>;
  /** Replace a user message and continue from there. */
  edit(messageId: string, text: string): Promise<void>;
  /** Copy the conversation up to a message into a new thread with this title; a user message becomes the draft. */
  branch(messageId: string, title: string | null): Promise<void>;
  /** Load the subagent events of a run this page did not stream. */
  loadSubagentTasks(runId: string): Promise<void>;
  /** Select another version at a fork. */
  selectVersion(rewoundRuns: ReadonlySet<string>): void;
}

interface Turn {
  /** The first message of the turn. */
  readonly own: Message;
  readonly runId: string;
  /** Ids of the messages before the turn. */
  readonly before: readonly string[];
}

export function turnActions(
  dependencies: Dependencies,
  threads: ThreadActions,
  models: ModelChoice,
  reader: RunReader,
  open: (threadId: string) => Promise<void>,
): TurnActions {
  const { gateway, store, newId, now } = dependencies;
  const { get, dispatch } = store;
  const emit = (event: RunEvent) => dispatch({ type: "run", event });

  /** Return the turn of a message, starting at the first user message of its run. */
  function turnOf(messageId: string): Turn | null {
    const { conversation } = get();
    const { settled, rewoundRuns } = conversation;
    const { ids } = selectBranch(conversation, rewoundRuns);
    const place = ids.indexOf(messageId);
    const last = ids.slice(0, place + 1).findLast((id) => isOwn(settled.get(id)));
    const runId = settled.get(last ?? "")?.runId ?? null;
    if (runId === null) return null;
    const first = ids.findIndex((id) => isOwn(settled.get(id)) && settled.get(id)?.runId === runId);
    const own = settled.get(ids[first] ?? "");
    return own === undefined ? null : { own, runId, before: ids.slice(0, first) };
  }

  /** Return the thread, the turn and its start checkpoint, null if it cannot be repeated now. */
  async function again(messageId: string) {
    const { threadId, conversation } = get();
    const turn = turnOf(messageId);
    if (threadId === null || turn === null || isActive(conversation.run)) return null;
    const signal = reader.signal();
    const checkpoint = await gateway.beginningOf(threadId, turn.runId).catch(() => null);
    if (checkpoint === null || signal.aborted || isActive(get().conversation.run)) return null;
    return { threadId, turn, checkpoint };
  }

  return {
    async regenerate(messageId) {
      const found = await again(messageId);
      if (found === null) return;
      const { threadId, turn, checkpoint } = found;
      const hidden = get().conversation.order.filter(
        (id) => get().conversation.settled.get(id)?.hidden === true,
      );
      const model = models.current()?.name ?? null;
      emit({ type: "regenerated", keeps: [...turn.before, turn.own.id, ...hidden], model, at: now() });
      threads.touch(threadId, "busy");
      await reader.read(threadId, {
        connect: (until) =>
          gateway.repeatRun(threadId, { checkpoint, ...settingsOf(get(), models.current()) }, until),
        rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
      });
    },

    async edit(messageId, text) {
      const found = await again(messageId);
      if (found === null) return;
      const { threadId, turn, checkpoint } = found;
      const { files } = turn.own;
      const run = { messageId: newId(), text, files, checkpoint, ...settingsOf(get(), models.current()) };
      const { planMode, subagents = false, model } = run;
      emit({
        type: "sent",
        messageId: run.messageId,
        text,
        files,
        planMode,
        subagents,
        model,
        keeps: turn.before,
        at: now(),
      });
      threads.touch(threadId, "busy");
      await reader.read(threadId, {
        connect: (until) => gateway.startRun(threadId, run, until),
        rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
      });
    },

    async branch(messageId, title) {
      const { threadId, conversation } = get();
      const message = conversation.settled.get(messageId);
      if (threadId === null || message?.runId == null || isActive(conversation.run)) return;
      const signal = reader.signal();
      const own = isOwn(message);
      const where = own ? gateway.beginningOf : gateway.endOf;
      const checkpoint = await where(threadId, message.runId);
      if (checkpoint === null || signal.aborted) return;
      const copy = await gateway.copyThread(threadId, checkpoint, { title });
      if (signal.aborted) return;
      await Promise.all([open(copy), threads.refreshThreads()]);
      if (own && get().threadId === copy) dispatch({ type: "draftChanged", text: message.text });
    },

    async loadSubagentTasks(runId) {
      const { threadId } = get();
      if (threadId === null) return;
      const signal = reader.signal();
      // Steps are optional: the result is shown anyway.
      const events = await gateway.reports(threadId, runId).catch(() => []);
      if (!signal.aborted && events.length > 0) emit({ type: "subagentEventsLoaded", events });
    },

    selectVersion: (rewoundRuns) => emit({ type: "versionSelected", rewoundRuns }),
  };
}
