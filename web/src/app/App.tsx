/** The page: thread list on the left, current view on the right. */

import { Outlet } from "@tanstack/react-router";
import { useEffect } from "react";
import { LiveRegion } from "@/app/LiveRegion";
import { ThreadRail } from "@/app/ThreadRail";
import { useShortcuts } from "@/app/useShortcuts";
import { Palette } from "@/features/palette/Palette";
import { ThreadNotice } from "@/features/threads/ThreadNotice";
import { useLanguage } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import type { Thread } from "@/state/page";

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
      <LiveRegion />
    </div>
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

// Polling intervals of the thread list, with and without active threads.
const REFRESH_MS = 5000;
const QUIET_MS = 20_000;
const FRESH_MS = 30_000;

/** Polls the thread list for status and title changes made elsewhere. */
function useThreadPolling(): void {
  const actions = useActions();
  const busy = usePage(({ threads }) => threads.phase === "ready" && threads.value.some(isChanging));
  useEffect(() => {
    const timer = setInterval(
      () => {
        if (!document.hidden) void actions.refreshThreads();
      },
      busy ? REFRESH_MS : QUIET_MS,
    );
    return () => clearInterval(timer);
  }, [busy, actions]);
}

function isChanging({ status, updatedAt }: Thread): boolean {
  return status === "busy" || Date.now() - Date.parse(updatedAt) < FRESH_MS;
}

/** Listens for network changes and for the page becoming visible. */
function useConnectivity(): void {
  const actions = useActions();
  useEffect(() => {
    const network = () => actions.setOnline(navigator.onLine);
    const back = () => {
      if (!document.hidden) void actions.refreshThreads();
    };
    window.addEventListener("online", network);
    window.addEventListener("offline", network);
    document.addEventListener("visibilitychange", back);
    return () => {
      window.removeEventListener("online", network);
      window.removeEventListener("offline", network);
      document.removeEventListener("visibilitychange", back);
    };
  }, [actions]);
}
