/** Builds the page from its parts. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createFilesGateway, sendFormInBrowser } from "@/api/files";
import { createGateway } from "@/api/gateway";
import type { Fetch } from "@/api/http";
import { App } from "@/app/App";
import { createActions } from "@/app/actions";
import { AppProvider } from "@/app/context";
import { threadInPath } from "@/app/conversationActions";
import { initialPage, reducePage } from "@/app/page";
import { readPreferences, writePreferences } from "@/app/preferences";
import { createStore } from "@/app/store";
import { browserPatience } from "@/run/stream";
import { newId } from "@/ui/newId";
import "@/style/page.css";

const DELETING = "deerflow.deleting";

const store = createStore(
  reducePage,
  initialPage(threadInPath(location.pathname), readPreferences(localStorage), navigator.onLine),
  // A hidden page draws no frames, yet its title and list should stay true.
  (callback) => (document.hidden ? setTimeout(callback, 500) : requestAnimationFrame(callback)),
);

const ask: Fetch = (path, init) => fetch(path, init);
const files = createFilesGateway(ask, sendFormInBrowser);
const actions = createActions({
  gateway: createGateway(ask),
  store,
  patience: browserPatience,
  newId,
  now: Date.now,
  pushPath: (path) => history.pushState(null, "", path),
  savePreferences: (preferences) => writePreferences(localStorage, preferences),
  deleting: {
    get: () => sessionStorage.getItem(DELETING),
    set: (threadId) =>
      threadId === null ? sessionStorage.removeItem(DELETING) : sessionStorage.setItem(DELETING, threadId),
  },
});

window.addEventListener("popstate", () => void actions.open(threadInPath(location.pathname), "pop"));

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no element #root");
createRoot(root).render(
  <StrictMode>
    <AppProvider app={{ store, actions, files }}>
      <App />
    </AppProvider>
  </StrictMode>,
);
void actions.start();
