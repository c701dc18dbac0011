/** Watches the thread list: marks unseen results, and notifies while the page is hidden. */

import { useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { type Thread, useThreads } from "@/state/threadList";
import { threadInPath } from "@/state/urls";
import { changeOf, watchThreads } from "@/state/watch";

export function useThreadWatch(): void {
  const actions = useActions();
  const strings = useStrings();
  const list = useThreads();
  const threads = list.phase === "ready" ? list.value : null;
  const marks = usePage((page) => page.preferences.watched);
  const notify = usePage((page) => page.preferences.notify);
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const visible = useIsVisible();
  const seen = visible ? (threadInPath(path) ?? null) : null;
  const before = useRef<ReadonlyMap<string, Thread>>(new Map());

  useEffect(() => {
    if (threads === null) return;
    const watched = watchThreads(marks, threads, seen);
    if (watched !== marks) actions.prefer({ watched });
  }, [actions, threads, marks, seen]);

  useEffect(() => {
    if (threads === null) return;
    const known = before.current;
    before.current = new Map(threads.map((thread) => [thread.id, thread]));
    if (!notify || visible || !("Notification" in window) || Notification.permission !== "granted") return;
    for (const thread of threads) {
      const change = changeOf(known.get(thread.id), thread);
      if (change === null) continue;
      // The tag replaces an earlier notification of the thread.
      const shown = new Notification(strings.workspace[change], {
        body: thread.title ?? strings.untitled,
        tag: thread.id,
      });
      shown.onclick = () => {
        window.focus();
        void actions.open(thread.id);
        shown.close();
      };
    }
  }, [actions, threads, notify, visible, strings]);
}

function useIsVisible(): boolean {
  const [visible, setVisible] = useState(!document.hidden);
  useEffect(() => {
    const update = () => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", update);
    return () => document.removeEventListener("visibilitychange", update);
  }, []);
  return visible;
}
