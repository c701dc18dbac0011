/** The page: thread list on the left, current view on the right. */

import { Outlet } from "@tanstack/react-router";
import { lazy, Suspense, useEffect } from "react";
import { LiveRegion } from "@/app/LiveRegion";
import { ThreadRail } from "@/app/ThreadRail";
import { useShortcuts } from "@/app/useShortcuts";
import { useThreadWatch } from "@/app/useThreadWatch";
import { Palette } from "@/features/palette/Palette";
import { ThreadNotice } from "@/features/threads/ThreadNotice";
import { useLanguage } from "@/i18n/context";
import { lastOwn } from "@/run/reduce";
import { useActions, usePage } from "@/state/context";
import { useModelNotice } from "@/state/models";
import { useThreadPolling } from "@/state/threadList";

export function App() {
  useDocumentAttributes();
  useShortcuts();
  useConnectivity();
  useThreadPolling();
  useThreadWatch();
  useModelNotice();
  return (
    <div className="flex h-dvh">
      <ThreadRail />
      <main className="relative flex min-w-0 flex-1 flex-col">
        <Outlet />
        <ThreadNotice />
      </main>
      <Palette />
      <ConnectModel />
      <LiveRegion />
    </div>
  );
}

const ConnectDialog = lazy(() => import("@/features/settings/models/ConnectDialog"));
const UpdateKey = lazy(() => import("@/features/settings/models/UpdateKey"));

/** Dialog that connects a model or replaces its key, loaded when it is first opened. */
function ConnectModel() {
  const connecting = usePage((page) => page.connecting);
  const failed = usePage(({ conversation }) => lastOwn(conversation)?.id);
  const actions = useActions();
  if (connecting === null) return null;
  const close = () => actions.connectModel(null);
  return (
    <Suspense>
      {connecting.keyOf === undefined ? (
        <ConnectDialog connectionId={connecting.connectionId} onClose={close} />
      ) : (
        <UpdateKey
          model={connecting.keyOf}
          onUpdated={() => failed !== undefined && void actions.regenerate(failed)}
          onClose={close}
        />
      )}
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
