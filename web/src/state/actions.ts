/** Actions of the page. */

import type { ActiveAgent } from "@/api/assistants";
import { type ConversationActions, conversationActions } from "@/state/conversationActions";
import type { Dependencies } from "@/state/dependencies";
import { type ModelActions, modelActions } from "@/state/modelActions";
import type { Thread } from "@/state/page";
import { createRunReader } from "@/state/runReader";
import { type ThreadActions, threadActions } from "@/state/threadActions";
import { type TurnActions, turnActions } from "@/state/turnActions";

export interface Actions extends ConversationActions, ModelActions, ThreadActions, TurnActions {
  /** Load the initial data. */
  start(): Promise<void>;
  /** Start a thread with a custom agent, or one that creates an agent. */
  startChat(activeAgent: ActiveAgent): Promise<void>;
  setDrawerOpen(open: boolean): void;
  setPaletteOpen(open: boolean): void;
  setOnline(online: boolean): void;
}

export function createActions(dependencies: Dependencies): Actions {
  const { gateway, store } = dependencies;
  const { get, dispatch } = store;
  const threads = threadActions(dependencies);
  const models = modelActions(dependencies);
  const reader = createRunReader(dependencies, threads);
  const conversation = conversationActions(dependencies, threads, models, reader);
  const turns = turnActions(dependencies, threads, reader, conversation.open);

  async function loadSandbox(): Promise<void> {
    // A server without sandbox status shows no warning.
    const sandbox = await gateway.sandbox().catch(() => null);
    if (sandbox !== null) dispatch({ type: "sandboxLoaded", sandbox });
  }

  return {
    ...threads,
    ...models,
    ...conversation,
    ...turns,

    async start() {
      const loading = [models.loadModels(), threads.refreshThreads(), conversation.reload(), loadSandbox()];
      await Promise.all(loading);
    },

    remove(thread: Thread) {
      threads.remove(thread);
      if (get().threadId === thread.id) void conversation.open(null);
    },

    async startChat(activeAgent) {
      await conversation.open(null);
      dispatch({ type: "agentResolved", activeAgent });
    },

    setDrawerOpen: (open) => dispatch({ type: "drawerToggled", open }),
    setPaletteOpen: (open) => dispatch({ type: "paletteToggled", open }),

    setOnline(online) {
      dispatch({ type: "onlineChanged", online });
      if (!online) return;
      void threads.refreshThreads();
      const { opening, stale } = get();
      if (stale || opening.phase === "failed") void conversation.reload();
      if (get().models.phase === "failed") void models.loadModels();
      if (get().sandbox === null) void loadSandbox();
    },
  };
}
