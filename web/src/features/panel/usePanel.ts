/** Whether the panel is open, at what, and the ways to change that. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useActions, usePage } from "@/app/context";
import type { PanelTab } from "@/features/panel/search";
import { useMedia } from "@/ui/useMedia";

export interface PanelState {
  /** null: closed. */
  readonly tab: PanelTab | null;
  readonly file: string | null;
  /** Whether it lies over the conversation, for lack of room beside it. */
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
  // A sheet hides what is below it: only an address opens it, not a memory.
  return { tab: panel ?? (isSheet ? null : remembered), file: file ?? null, isSheet };
}

/** Opens the panel at a tab and a file; null closes it. */
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
