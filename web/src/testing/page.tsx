/** Renders the page with a fake gateway. */

import { createMemoryHistory, RouterProvider } from "@tanstack/react-router";
import { render } from "@testing-library/react";
import type { Gateway } from "@/api/gateway";
import type { Server } from "@/api/server";
import { createAppRouter } from "@/app/routes";
import { createActions } from "@/state/actions/actions";
import { AppProvider } from "@/state/context";
import { initialPage, reducePage } from "@/state/page";
import { DEFAULT_PREFERENCES, type Preferences } from "@/state/preferences";
import { PageQueryClient } from "@/state/queryClient";
import { ServerProvider } from "@/state/server";
import { createStore } from "@/state/store";
import { syncThreadWithUrl } from "@/state/syncThreadWithUrl";
import { threadInPath } from "@/state/urls";
import { instantRetryPolicy } from "@/testing/gateway";
import { fakeServer } from "@/testing/server";

interface Shown {
  readonly paths: readonly string[];
  readonly saved: () => Preferences | null;
}

export function showPage(
  gateway: Gateway,
  {
    path = "/",
    preferences = {} as Partial<Preferences>,
    deleting = null as string | null,
    server = {} as Partial<Server>,
  } = {},
): Shown {
  const chosen: Preferences = { ...DEFAULT_PREFERENCES, language: "en", ...preferences };
  const store = createStore(
    reducePage,
    initialPage(threadInPath(path.split("?")[0] ?? "/") ?? null, chosen, true),
    queueMicrotask,
  );
  const history = createMemoryHistory({ initialEntries: [path] });
  const paths: string[] = [];
  history.subscribe(({ location, action }) => {
    if (action.type === "PUSH") paths.push(location.href);
  });
  let saved: Preferences | null = null;
  let ids = 0;
  const queries = new PageQueryClient({ defaultOptions: { queries: { retry: false } } });
  const actions = createActions({
    gateway,
    store,
    queries,
    retryPolicy: instantRetryPolicy,
    newId: () => `id-${++ids}`,
    now: () => 0,
    pushPath: (pushed) => history.push(pushed),
    savePreferences: (given) => {
      saved = given;
    },
    temporary: { get: () => null, set: () => {} },
    deleting: {
      get: () => deleting,
      set: (threadId) => {
        deleting = threadId;
      },
    },
  });
  syncThreadWithUrl(history, store, actions);
  render(
    <AppProvider app={{ store, actions, gateway }}>
      <ServerProvider server={fakeServer(server)} queries={queries}>
        <RouterProvider router={createAppRouter(history)} />
      </ServerProvider>
    </AppProvider>,
  );
  void actions.start();
  return { paths, saved: () => saved };
}
