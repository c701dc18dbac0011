/** Actions for models and preferences. */

import { type Dependencies, toProblem } from "@/state/dependencies";
import { currentModel } from "@/state/page";
import type { Preferences } from "@/state/preferences";

export interface ModelActions {
  loadModels(): Promise<void>;
  /** Resolves when the models have loaded or failed to load. */
  modelsLooked(): Promise<void>;
  prefer(change: Partial<Preferences>): void;
}

export function modelActions({ gateway, store, savePreferences }: Dependencies): ModelActions {
  const { get, dispatch } = store;

  async function loadStarters(): Promise<void> {
    const model = currentModel(get());
    // Starters are optional; errors are ignored.
    const starters = await gateway.starters(model?.name ?? null).catch(() => []);
    dispatch({ type: "startersListed", starters });
  }

  async function listModels(): Promise<void> {
    try {
      dispatch({ type: "modelsListed", models: await gateway.models() });
    } catch (error) {
      dispatch({ type: "modelsFailed", problem: toProblem(error) });
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
      dispatch({ type: "preferencesChanged", change });
      savePreferences(get().preferences);
      if (change.model !== undefined) void loadStarters();
    },
  };
}
