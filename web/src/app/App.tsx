/** The page: thread list on the left, current view on the right. */

import { Outlet } from "@tanstack/react-router";
import { lazy, Suspense, useEffect } from "react";
import { LiveRegion } from "@/app/LiveRegion";
import { ThreadRail } from "@/app/ThreadRail";
import { useShortcuts } from "@/app/useShortcuts";
import { Palette } from "@/features/palette/Palette";
import { ThreadNotice } from "@/features/threads/ThreadNotice";
import { useLanguage } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { useThreadPolling } from "@/state/threadList";

export function App() {
  useDocumentAttributes();
  useShortcuts();
  useConnectivity();
  useThreadPolling();
  return (
    <div className="flex h-dvh">
      <ThreadRail />
      <main className="flex min-w-0 flex-1 flex-col">
        <Outlet />
      </main>
      <ThreadNotice />
      <Palette />
      <ConnectModel />
      <LiveRegion />
    </div>
  );
}

const ConnectDialog = lazy(() => import("@/features/settings/models/ConnectDialog"));

/** Dialog that connects a model, loaded when it is first opened. */
function ConnectModel() {
  const connecting = usePage((page) => page.connecting);
  const actions = useActions();
  if (connecting === null) return null;
  return (
    <Suspense>
      <ConnectDialog connectionId={connecting.connectionId} onClose={() => actions.connectModel(null)} />
    </Suspense>
  );
}

/** Sets the language and theme of the document. */
function useDocumentAttributes(): void {
  const language = useLanguage();
  const theme = usePage((page) => page.preferences.theme);
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }, [theme]);
}

/** Listens for network changes. */
function useConnectivity(): void {
  const actions = useActions();
  useEffect(() => {
    const network = () => actions.setOnline(navigator.onLine);
    window.addEventListener("online", network);
    window.addEventListener("offline", network);
    return () => {
      window.removeEventListener("online", network);
      window.removeEventListener("offline", network);
    };
  }, [actions]);
}
