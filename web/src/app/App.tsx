/** The page: threads on the left, the conversation beside them. */

import { useEffect } from "react";
import { useActions, useLanguage, usePage } from "@/app/context";
import { Header } from "@/app/Header";
import { StatusVoice } from "@/app/StatusVoice";
import { ThreadRail } from "@/app/ThreadRail";
import { useShortcuts } from "@/app/useShortcuts";
import { ThreadView } from "@/features/chat/ThreadView";
import { SandboxBanner } from "@/features/sandbox/SandboxBanner";
import { DeletedNotice } from "@/features/threads/DeletedNotice";

export function App() {
  useDocument();
  useShortcuts();
  useWorld();
  return (
    <div className="flex h-dvh">
      <ThreadRail />
      <main className="flex min-w-0 flex-1 flex-col">
        <Header />
        <SandboxBanner />
        <ThreadView />
      </main>
      <DeletedNotice />
      <StatusVoice />
    </div>
  );
}

/** Carries what belongs to the document: title, language, theme. */
function useDocument(): void {
  const language = useLanguage();
  const theme = usePage((page) => page.preferences.theme);
  const title = usePage(({ conversation }) => conversation.title);
  useEffect(() => {
    document.title = title === null ? "DeerFlow" : `${title} · DeerFlow`;
  }, [title]);
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }, [theme]);
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
