/** Entry point of the page. */

import { createBrowserHistory, RouterProvider } from "@tanstack/react-router";
import { type ReactNode, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { needsLogin, protect } from "@/api/accounts";
import { createFilesGateway, sendFormInBrowser } from "@/api/files";
import { createGateway } from "@/api/gateway";
import type { Fetch } from "@/api/http";
import { createServer } from "@/api/server";
import { createAppRouter } from "@/app/routes";
import { loadLanguage, preferredLanguage } from "@/i18n/i18n";
import { browserRetryPolicy } from "@/run/stream";
import { createActions } from "@/state/actions/actions";
import { AppProvider } from "@/state/context";
import { keepDrafts, readDrafts } from "@/state/drafts";
import { initialPage, reducePage } from "@/state/page";
import { readPreferences, writePreferences } from "@/state/preferences";
import { retryWhenAway } from "@/state/queries";
import { PageQueryClient } from "@/state/queryClient";
import { ServerProvider } from "@/state/server";
import { createStore } from "@/state/store";
import { syncThreadWithUrl } from "@/state/syncThreadWithUrl";
import { sharedInPath, threadInPath } from "@/state/urls";
import { newId } from "@/ui/dom/newId";
import "@/style/page.css";

const DELETING = "deerflow.deleting";
const TEMPORARY = "deerflow.temporary";
/** Addresses that need no session. */
const LOGIN_PATHS: ReadonlySet<string> = new Set(["/login", "/setup", "/invitation", "/reset-password"]);

const ask: Fetch = async (path, init) => {
  const response = await fetch(path, protect(init));
  if (token === null && needsLogin(response)) void showLogin();
  return response;
};

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no element #root");
const page = createRoot(root);
const token = sharedInPath(location.pathname);
const { language } = readPreferences(localStorage);
void loadLanguage(language ?? preferredLanguage(navigator.languages))
  .catch(() => {}) // the page is shown in English
  .then(async () => {
    if (LOGIN_PATHS.has(location.pathname)) return showLogin();
    if (token === null) return page.render(workspace());
    // A shared page must not load anything of the workspace.
    const { sharedPage } = await import("@/app/shared/sharedApp");
    page.render(<StrictMode>{sharedPage(ask, token, readPreferences(localStorage))}</StrictMode>);
  });

async function showLogin(): Promise<void> {
  const { loginPage } = await import("@/app/account/loginApp");
  page.render(<StrictMode>{loginPage(ask, readPreferences(localStorage))}</StrictMode>);
}

/** An id that survives a reload of this tab. */
function keptId(key: string) {
  return {
    get: () => sessionStorage.getItem(key),
    set: (id: string | null) =>
      id === null ? sessionStorage.removeItem(key) : sessionStorage.setItem(key, id),
  };
}

function workspace(): ReactNode {
  const store = createStore(
    reducePage,
    {
      ...initialPage(
        threadInPath(location.pathname) ?? null,
        readPreferences(localStorage),
        navigator.onLine,
      ),
      drafts: readDrafts(localStorage),
      temporaryId: keptId(TEMPORARY).get(),
    },
    // Hidden pages get no animation frames but still update title and list.
    (callback) => (document.hidden ? setTimeout(callback, 500) : requestAnimationFrame(callback)),
  );

  store.subscribe(keepDrafts(localStorage, () => store.get().drafts));
  const history = createBrowserHistory();
  const files = createFilesGateway(ask, sendFormInBrowser);
  const queries = new PageQueryClient({
    defaultOptions: { queries: { retry: retryWhenAway, staleTime: 5_000 } },
  });
  const gateway = createGateway(ask, {
    current: () => store.get().activeAgent,
    onRunAgent: (threadId, activeAgent) => {
      if (threadId === store.get().threadId) store.dispatch({ type: "agentResolved", activeAgent });
    },
  });
  const actions = createActions({
    gateway,
    store,
    queries,
    retryPolicy: browserRetryPolicy,
    newId,
    now: Date.now,
    pushPath: (path) => history.push(path),
    savePreferences: (preferences) => writePreferences(localStorage, preferences),
    deleting: keptId(DELETING),
    temporary: keptId(TEMPORARY),
  });

  syncThreadWithUrl(history, store, actions);
  const router = createAppRouter(history);
  void actions.start().then(() => {
    // Preload so that views open at once, also when the server is down later.
    for (const to of ["/agents", "/skills", "/memory", "/tools", "/usage", "/settings"] as const)
      void router.preloadRoute({ to });
  });
  return (
    <StrictMode>
      <AppProvider app={{ store, actions, gateway, files }}>
        <ServerProvider server={createServer(ask)} queries={queries}>
          <RouterProvider router={router} />
        </ServerProvider>
      </AppProvider>
    </StrictMode>
  );
}
