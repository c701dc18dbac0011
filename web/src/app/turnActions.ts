/** Acting on what was said: answering anew, saying otherwise, going on elsewhere. */

import { settingsOf } from "@/app/conversationActions";
import type { Reading } from "@/app/reading";
import type { Surroundings } from "@/app/surroundings";
import type { ThreadActions } from "@/app/threadActions";
import { wayThrough } from "@/run/branches";
import { isOwn, type Message } from "@/run/message";
import { isActive, type RunEvent } from "@/run/reduce";

export interface TurnActions {
  /** Has the answer to a message made anew; `messageId` may be the message or any part of its answer. */
  regenerate(messageId: string): Promise<void>;
  /** Says something else in the place of an own message, and goes on from there. */
  edit(messageId: string, text: string): Promise<void>;
  /** Opens a new thread with the conversation up to a message; before an own one, which is there to be written anew. */
  branch(messageId: string): Promise<void>;
  /** Fetches what subagents did in a run that this page did not follow. */
  loadLanes(runId: string): Promise<void>;
  /** Shows another version of what was said where versions part. */
  lookBack(undone: ReadonlySet<string>): void;
}

interface Turn {
  /** The message that began it. */
  readonly own: Message;
  readonly runId: string;
  /** What was said before it. */
  readonly before: readonly string[];
}

export function turnActions(
  around: Surroundings,
  threads: ThreadActions,
  reading: Reading,
  open: (threadId: string) => Promise<void>,
): TurnActions {
  const { gateway, store, newId, now } = around;
  const { get, dispatch } = store;
  const happen = (event: RunEvent) => dispatch({ type: "run", event });

  /** The turn a message belongs to: it begins with the first own message of the run. */
  function turnOf(messageId: string): Turn | null {
    const { conversation } = get();
    const { settled, undone } = conversation;
    const { ids } = wayThrough(conversation, undone);
    const place = ids.indexOf(messageId);
    const last = ids.slice(0, place + 1).findLast((id) => isOwn(settled.get(id)));
    const runId = settled.get(last ?? "")?.runId ?? null;
    if (runId === null) return null;
    const first = ids.findIndex((id) => isOwn(settled.get(id)) && settled.get(id)?.runId === runId);
    const own = settled.get(ids[first] ?? "");
    return own === undefined ? null : { own, runId, before: ids.slice(0, first) };
  }

  /** The thread, the turn and where it began, if it can be taken again now. */
  async function again(messageId: string) {
    const { threadId, conversation } = get();
    const turn = turnOf(messageId);
    if (threadId === null || turn === null || isActive(conversation.run)) return null;
    const signal = reading.signal();
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
      happen({ type: "asked again", keeps: [...turn.before, turn.own.id, ...hidden] });
      threads.touch(threadId, "busy");
      await reading.read(threadId, {
        connect: (until) => gateway.repeatRun(threadId, { checkpoint, ...settingsOf(get()) }, until),
        rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
      });
    },

    async edit(messageId, text) {
      const found = await again(messageId);
      if (found === null) return;
      const { threadId, turn, checkpoint } = found;
      const { files } = turn.own;
      const run = { messageId: newId(), text, files, checkpoint, ...settingsOf(get()) };
      const { planMode, subagents = false } = run;
      happen({
        type: "sent",
        messageId: run.messageId,
        text,
        files,
        planMode,
        subagents,
        keeps: turn.before,
        at: now(),
      });
      threads.touch(threadId, "busy");
      await reading.read(threadId, {
        connect: (until) => gateway.startRun(threadId, run, until),
        rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
      });
    },

    async branch(messageId) {
      const { threadId, conversation } = get();
      const message = conversation.settled.get(messageId);
      if (threadId === null || message?.runId == null || isActive(conversation.run)) return;
      const signal = reading.signal();
      const own = isOwn(message);
      const where = own ? gateway.beginningOf : gateway.endOf;
      const checkpoint = await where(threadId, message.runId);
      if (checkpoint === null || signal.aborted) return;
      const copy = await gateway.copyThread(threadId, checkpoint);
      if (signal.aborted) return;
      await Promise.all([open(copy), threads.refreshThreads()]);
      if (own && get().threadId === copy) dispatch({ type: "drafted", text: message.text });
    },

    async loadLanes(runId) {
      const { threadId } = get();
      if (threadId === null) return;
      const signal = reading.signal();
      // What went on is told by the result too; the steps are more than that.
      const events = await gateway.reports(threadId, runId).catch(() => []);
      if (!signal.aborted && events.length > 0) happen({ type: "lanes", events });
    },

    lookBack: (undone) => happen({ type: "looked back", undone }),
  };
}
