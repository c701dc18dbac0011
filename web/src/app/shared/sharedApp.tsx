/** Entry point of shared pages. Requests only the shared thread. */

import type { ReactNode } from "react";
import type { Fetch } from "@/api/http";
import { createServer } from "@/api/server";
import { readingGateway, sharedApi } from "@/api/sharing";
import { SharedPage } from "@/app/shared/SharedPage";
import { browserRetryPolicy } from "@/run/stream";
import { createActions } from "@/state/actions/actions";
import { AppProvider } from "@/state/context";
import { initialPage, reducePage } from "@/state/page";
import type { Preferences } from "@/state/preferences";
import { retryWhenAway } from "@/state/queries";
import { PageQueryClient } from "@/state/queryClient";
import { ServerProvider } from "@/state/server";
import { createStore } from "@/state/store";
import { newId } from "@/ui/dom/newId";

export function sharedPage(ask: Fetch, token: string, preferences: Preferences): ReactNode {
  const shared = sharedApi(ask, token);
  const store = createStore(reducePage, initialPage(token, preferences, true), requestAnimationFrame);
  const queries = new PageQueryClient({ defaultOptions: { queries: { retry: retryWhenAway } } });
  const gateway = readingGateway(shared);
  const actions = createActions({
    gateway,
    store,
    queries,
    retryPolicy: browserRetryPolicy,
    newId,
    now: Date.now,
    pushPath: () => {},
    savePreferences: () => {},
    temporary: { get: () => null, set: () => {} },
    deleting: { get: () => null, set: () => {} },
  });
  const server = { ...createServer(ask), bytes: (_: string, path: string) => shared.bytes(path) };
  void actions.reload();
  return (
    <AppProvider app={{ store, actions, gateway, shared }}>
      <ServerProvider server={server} queries={queries}>
        <SharedPage about={shared.about} />
      </ServerProvider>
    </AppProvider>
  );
}
