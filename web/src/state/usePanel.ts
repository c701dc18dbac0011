/** State of the panel and ways to change it. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { isActive } from "@/run/conversation";
import { writingCall } from "@/run/liveFile";
import { textArgument } from "@/run/toolCalls";
import { useActions, usePage } from "@/state/context";
import type { Page } from "@/state/page";
import { type PanelTab, panelSearch } from "@/state/panelSearch";
import { useMedia } from "@/ui/dom/useMedia";

export interface PanelState {
  /** Null if closed. */
  readonly tab: PanelTab | null;
  readonly file: string | null;
  /** Run of the shown file changes; null for the last one. */
  readonly run: string | null;
  /** True if the panel covers the conversation. */
  readonly isSheet: boolean;
}

// The same width as the `roomy` breakpoint in style/page.css.
const SMALL = "(width < 1024px)";

export function usePanel(): PanelState {
  const isSheet = useMedia(SMALL);
  // Routes above keep what this one refuses, like a file that is named twice.
  const { panel, file, run } = panelSearch(useSearch({ strict: false }));
  const remembered = usePage(({ preferences, threadId }) =>
    preferences.panelOpen && threadId !== null ? preferences.panelTab : null,
  );
  // A covering panel is opened by URL only, not by the stored preference.
  return { tab: panel ?? (isSheet ? null : remembered), file: file ?? null, run: run ?? null, isSheet };
}

/** Open a tab and a file, or the changes of a run; null closes the panel. */
export function useOpenPanel(): (tab: PanelTab | null, file?: string, run?: string) => void {
  const navigate = useNavigate();
  const actions = useActions();
  const threadId = usePage((page) => page.threadId);
  return (tab, file, run) => {
    if (threadId === null) return;
    actions.prefer(tab === null ? { panelOpen: false } : { panelOpen: true, panelTab: tab });
    const search =
      tab === null
        ? {}
        : { panel: tab, ...(file !== undefined && { file }), ...(run !== undefined && { run }) };
    const replace = file === undefined && run === undefined;
    void navigate({ to: "/threads/$threadId", params: { threadId }, search, replace });
  };
}

// Pages and documents are worth watching while they are written.
const WATCHED = /^\/mnt\/user-data\/outputs\/.*\.(html?|md|markdown)$/i;

/** Return the first file of a thread that is presented, or being written and worth watching. */
function firstResult({ conversation }: Page): string | null {
  if (conversation.artifacts.length > 0) return conversation.artifacts[0] ?? null;
  const call = writingCall(conversation);
  const path = call === null ? "" : textArgument(call, "path");
  return WATCHED.test(path) ? path : null;
}

/**
 * Opens the panel for the first result of a thread, unless another file is open. The focus stays where it is, and the
 * stored state of the panel does not change. A panel that would cover the conversation is not opened.
 */
export function useAutoOpenPanel(): void {
  const navigate = useNavigate();
  const { tab, file, isSheet } = usePanel();
  const enabled = usePage(({ preferences }) => preferences.autoOpenPanel);
  const threadId = usePage((page) => page.threadId);
  const hadNone = usePage(
    ({ conversation }) => isActive(conversation.run) && conversation.artifacts.length === 0,
  );
  const path = usePage(firstResult);
  const waiting = useRef<"unknown" | "waiting" | "opened">("unknown");
  // biome-ignore lint/correctness/useExhaustiveDependencies: results of a thread that is opened later are not new
  useEffect(() => {
    waiting.current = "unknown";
  }, [threadId]);
  useEffect(() => {
    if (threadId === null) return;
    if (hadNone && waiting.current === "unknown") waiting.current = "waiting";
    if (path === null || waiting.current !== "waiting") return;
    waiting.current = "opened";
    if (!enabled || isSheet || file !== null || (tab !== null && tab !== "artifacts")) return;
    const search = { panel: "artifacts" as const, file: path };
    void navigate({ to: "/threads/$threadId", params: { threadId }, search, replace: true });
  }, [threadId, hadNone, path, enabled, isSheet, file, tab, navigate]);
}

export function useTogglePanel(): () => void {
  const { tab } = usePanel();
  const open = useOpenPanel();
  const last = usePage((page) => page.preferences.panelTab);
  return () => open(tab === null ? last : null);
}
