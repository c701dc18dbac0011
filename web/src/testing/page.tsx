/** The whole page over a fake gateway. */

import { render } from "@testing-library/react";
import type { Gateway } from "@/api/gateway";
import { App } from "@/app/App";
import { createActions } from "@/app/actions";
import { AppProvider } from "@/app/context";
import { threadInPath } from "@/app/conversationActions";
import { initialPage, reducePage } from "@/app/page";
import { DEFAULT_PREFERENCES, type Preferences } from "@/app/preferences";
import { createStore } from "@/app/store";
import { noWaiting } from "@/testing/gateway";

interface Shown {
  readonly paths: readonly string[];
  readonly saved: () => Preferences | null;
}

export function showPage(
  gateway: Gateway,
  { path = "/", preferences = {} as Partial<Preferences>, deleting = null as string | null } = {},
): Shown {
  const chosen: Preferences = { ...DEFAULT_PREFERENCES, language: "en", ...preferences };
  const store = createStore(reducePage, initialPage(threadInPath(path), chosen, true), queueMicrotask);
  const paths: string[] = [];
  let saved: Preferences | null = null;
  let ids = 0;
  const actions = createActions({
    gateway,
    store,
    patience: noWaiting,
    newId: () => `id-${++ids}`,
    now: () => 0,
    pushPath: (pushed) => paths.push(pushed),
    savePreferences: (given) => {
      saved = given;
    },
    deleting: {
      get: () => deleting,
      set: (threadId) => {
        deleting = threadId;
      },
    },
  });
  render(
    <AppProvider app={{ store, actions }}>
      <App />
    </AppProvider>,
  );
  void actions.start();
  return { paths, saved: () => saved };
}
