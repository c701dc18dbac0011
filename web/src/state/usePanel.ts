/** State of the panel and ways to change it. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useActions, usePage } from "@/state/context";
import type { PanelTab } from "@/state/panelSearch";
import { useMedia } from "@/ui/dom/useMedia";

export interface PanelState {
  /** Null if closed. */
  readonly tab: PanelTab | null;
  readonly file: string | null;
  /** True if the panel covers the conversation. */
  readonly isSheet: boolean;
}

// The same width as the `roomy` breakpoint in style/page.css.
const SMALL = "(width < 1024px)";

export function usePanel(): PanelState {
  const isSheet = useMedia(SMALL);
  const { panel, file } = useSearch({ strict: false });
  const remembered = usePage(({ preferences, threadId }) =>
    preferences.panelOpen && threadId !== null ? preferences.panelTab : null,
  );
  // A covering panel is opened by URL only, not by the stored preference.
  return { tab: panel ?? (isSheet ? null : remembered), file: file ?? null, isSheet };
}

/** Open a tab and a file; null closes the panel. */
export function useOpenPanel(): (tab: PanelTab | null, file?: string) => void {
  const navigate = useNavigate();
  const actions = useActions();
  const threadId = usePage((page) => page.threadId);
  return (tab, file) => {
    if (threadId === null) return;
    actions.prefer(tab === null ? { panelOpen: false } : { panelOpen: true, panelTab: tab });
    const search = tab === null ? {} : { panel: tab, ...(file !== undefined && { file }) };
    void navigate({ to: "/threads/$threadId", params: { threadId }, search, replace: file === undefined });
  };
}

export function useTogglePanel(): () => void {
  const { tab } = usePanel();
  const open = useOpenPanel();
  const last = usePage((page) => page.preferences.panelTab);
  return () => open(tab === null ? last : null);
}
