/** What the user can do. */

import type { Answering } from "@/api/assistants";
import { type ConversationActions, conversationActions } from "@/app/conversationActions";
import { type ModelActions, modelActions } from "@/app/modelActions";
import type { Thread } from "@/app/page";
import { createReading } from "@/app/reading";
import type { Surroundings } from "@/app/surroundings";
import { type ThreadActions, threadActions } from "@/app/threadActions";
import { type TurnActions, turnActions } from "@/app/turnActions";

export interface Actions extends ConversationActions, ModelActions, ThreadActions, TurnActions {
  /** Loads what the page shows first. */
  start(): Promise<void>;
  /** Begins a thread with a custom agent, or one that makes an agent. */
  talkTo(answering: Answering): Promise<void>;
  drawer(open: boolean): void;
  palette(open: boolean): void;
  setOnline(online: boolean): void;
}

export function createActions(around: Surroundings): Actions {
  const { gateway, store } = around;
  const { get, dispatch } = store;
  const threads = threadActions(around);
  const models = modelActions(around);
  const reading = createReading(around, threads);
  const conversation = conversationActions(around, threads, models, reading);
  const turns = turnActions(around, threads, reading, conversation.open);

  async function lookAtSandbox(): Promise<void> {
    // A server that does not say where commands run has nothing to warn of.
    const sandbox = await gateway.sandbox().catch(() => null);
    if (sandbox !== null) dispatch({ type: "sandbox known", sandbox });
  }

  return {
    ...threads,
    ...models,
    ...conversation,
    ...turns,

    async start() {
      const loading = [models.loadModels(), threads.refreshThreads(), conversation.reload(), lookAtSandbox()];
      await Promise.all(loading);
    },

    remove(thread: Thread) {
      threads.remove(thread);
      if (get().threadId === thread.id) void conversation.open(null);
    },

    async talkTo(answering) {
      await conversation.open(null);
      dispatch({ type: "agent known", answering });
    },

    drawer: (open) => dispatch({ type: "drawer", open }),
    palette: (open) => dispatch({ type: "palette", open }),

    setOnline(online) {
      dispatch({ type: "online", online });
      if (!online) return;
      void threads.refreshThreads();
      const { opening, stale } = get();
      if (stale || opening.phase === "failed") void conversation.reload();
      if (get().models.phase === "failed") void models.loadModels();
      if (get().sandbox === null) void lookAtSandbox();
    },
  };
}
