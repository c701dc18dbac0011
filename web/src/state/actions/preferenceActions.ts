/** Actions for preferences and the model of the next message. */

import type { ModelInfo, ModelsAnswer } from "@/api/wire";
import type { Dependencies } from "@/state/actions/dependencies";
import { MODELS_KEY, modelsQuery, selectModel } from "@/state/models";
import type { Preferences } from "@/state/preferences";

export interface PreferenceActions {
  prefer(change: Partial<Preferences>): void;
}

/** The model of the next message, for other actions. */
export interface ModelChoice {
  /** Resolve when the models have loaded or failed to load. */
  ready(): Promise<void>;
  current(): ModelInfo | null;
}

export function preferenceActions({ store, savePreferences }: Dependencies): PreferenceActions {
  function prefer(change: Partial<Preferences>): void {
    store.dispatch({ type: "preferencesChanged", change });
    savePreferences(store.get().preferences);
  }

  return {
    prefer,
  };
}

export function modelChoice({ gateway, store, queries }: Dependencies): ModelChoice {
  return {
    async ready() {
      await queries.ensureQueryData(modelsQuery(gateway)).catch(() => undefined);
    },
    current: () => selectModel(queries.getQueryData<ModelsAnswer>(MODELS_KEY), store.get().preferences.model),
  };
}
