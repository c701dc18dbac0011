/** Which model answers, and the user's other choices. */

import { currentModel } from "@/app/page";
import type { Preferences } from "@/app/preferences";
import { problemOf, type Surroundings } from "@/app/surroundings";

export interface ModelActions {
  loadModels(): Promise<void>;
  /** Ends when it is known which models there are, or that it cannot be known. */
  modelsLooked(): Promise<void>;
  prefer(change: Partial<Preferences>): void;
}

export function modelActions({ gateway, store, savePreferences }: Surroundings): ModelActions {
  const { get, dispatch } = store;

  async function loadStarters(): Promise<void> {
    const model = currentModel(get());
    // Without starters the empty page is a little emptier; that is no error to show.
    const starters = await gateway.starters(model?.name ?? null).catch(() => []);
    dispatch({ type: "starters listed", starters });
  }

  async function listModels(): Promise<void> {
    try {
      dispatch({ type: "models listed", models: await gateway.models() });
    } catch (error) {
      dispatch({ type: "models failed", problem: problemOf(error) });
    }
  }

  let looking: Promise<void> = Promise.resolve();

  return {
    async loadModels() {
      looking = listModels();
      await looking;
      if (get().models.phase === "ready") await loadStarters();
    },

    modelsLooked: () => looking,

    prefer(change) {
      dispatch({ type: "preferred", change });
      savePreferences(get().preferences);
      if (change.model !== undefined) void loadStarters();
    },
  };
}
