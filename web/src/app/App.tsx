/** The page: threads on the left, the view beside them. */

import { Outlet } from "@tanstack/react-router";
import { useEffect } from "react";
import { useActions, useLanguage, usePage } from "@/app/context";
import type { Thread } from "@/app/page";
import { StatusVoice } from "@/app/StatusVoice";
import { ThreadRail } from "@/app/ThreadRail";
import { useShortcuts } from "@/app/useShortcuts";
import { Palette } from "@/features/palette/Palette";
import { ThreadNotice } from "@/features/threads/ThreadNotice";

export function App() {
  useDocument();
  useShortcuts();
  useWorld();
  useFreshList();
  return (
    <div className="flex h-dvh">
      <ThreadRail />
      <main className="flex min-w-0 flex-1 flex-col">
        <Outlet />
      </main>
      <ThreadNotice />
      <Palette />
      <StatusVoice />
    </div>
  );
}

/** Carries what belongs to the document: language and theme. */
function useDocument(): void {
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

// How often the list is looked at: while something is under way, and otherwise, for threads that begin elsewhere.
const REFRESH_MS = 5000;
const QUIET_MS = 20_000;
const FRESH_MS = 30_000;

/** Keeps the list true: threads are busy elsewhere, come to wait for the user, or get a better title. */
function useFreshList(): void {
  const actions = useActions();
  const busy = usePage(({ threads }) => threads.phase === "ready" && threads.value.some(isUnsettled));
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

function isUnsettled({ status, updatedAt }: Thread): boolean {
  return status === "busy" || Date.now() - Date.parse(updatedAt) < FRESH_MS;
}

/** Hears of the network and of the reader coming back. */
function useWorld(): void {
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
