/** Actions of the page. */

import type { ActiveAgent } from "@/api/assistants";
import { type ConversationActions, conversationActions } from "@/state/actions/conversationActions";
import type { Dependencies } from "@/state/actions/dependencies";
import { modelChoice, type PreferenceActions, preferenceActions } from "@/state/actions/preferenceActions";
import { createRunReader } from "@/state/actions/runReader";
import { type ThreadActions, threadActions } from "@/state/actions/threadActions";
import { type TurnActions, turnActions } from "@/state/actions/turnActions";
import { leaveTemporary, type WorkspaceActions, workspaceActions } from "@/state/actions/workspaceActions";
import { MODELS_KEY, modelsQuery } from "@/state/models";
import type { Connecting } from "@/state/page";
import { SANDBOX_KEY, sandboxQuery } from "@/state/sandbox";
import type { Thread } from "@/state/threadList";

export interface Actions
  extends ConversationActions,
    PreferenceActions,
    ThreadActions,
    TurnActions,
    WorkspaceActions {
  /** Load the initial data. */
  start(): Promise<void>;
  /** Start a thread with a custom agent, or one that creates an agent. */
  startChat(activeAgent: ActiveAgent): Promise<void>;
  setDrawerOpen(open: boolean): void;
  setPaletteOpen(open: boolean): void;
  /** Open the dialog that connects a model, or close it with null. */
  connectModel(connecting: Connecting | null): void;
  setOnline(online: boolean): void;
}

export function createActions(dependencies: Dependencies): Actions {
  const { gateway, store, queries } = dependencies;
  const { get, dispatch } = store;
  const threads = threadActions(dependencies);
  const models = modelChoice(dependencies);
  const reader = createRunReader(dependencies, threads);
  const conversation = conversationActions(dependencies, threads, models, reader);
  const turns = turnActions(dependencies, threads, models, reader, conversation.open);

  return {
    ...threads,
    ...preferenceActions(dependencies),
    ...conversation,
    ...turns,
    ...workspaceActions(dependencies, models, reader, conversation.reload),

    async start() {
      leaveTemporary(dependencies, get().threadId);
      await Promise.all([
        queries.prefetchQuery(modelsQuery(gateway)),
        queries.prefetchQuery(sandboxQuery(gateway)),
        threads.refreshThreads(),
        conversation.reload(),
      ]);
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
    connectModel: (connecting) => dispatch({ type: "connectingChanged", connecting }),

    setOnline(online) {
      dispatch({ type: "onlineChanged", online });
      if (!online) return;
      void threads.refreshThreads();
      const { opening, stale } = get();
      if (stale || opening.phase === "failed") void conversation.reload();
      for (const queryKey of [MODELS_KEY, SANDBOX_KEY])
        void queries.refetchQueries({ queryKey, predicate: ({ state }) => state.status === "error" });
    },
  };
}
