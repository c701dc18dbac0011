/** State of the thread list: a sidebar, or a drawer where there is no room for it. */

import { useActions, usePage } from "@/state/context";
import { usePanel } from "@/state/usePanel";
import { useIsNarrow } from "@/ui/dom/useIsNarrow";
import { useMedia } from "@/ui/dom/useMedia";

// List, conversation and panel do not fit side by side.
const CROWDED = "(width < 1200px)";

/** Return true if the list is a drawer: on narrow screens, and next to the panel below 1200 px. */
export function useIsDrawer(): boolean {
  const narrow = useIsNarrow();
  const crowded = useMedia(CROWDED);
  const { tab, isSheet } = usePanel();
  return narrow || (crowded && tab !== null && !isSheet);
}

/** Toggle the thread list, or the drawer. */
export function useToggleList(): () => void {
  const actions = useActions();
  const isDrawer = useIsDrawer();
  const drawerOpen = usePage((page) => page.drawerOpen);
  const listOpen = usePage((page) => page.preferences.listOpen);
  return () => (isDrawer ? actions.setDrawerOpen(!drawerOpen) : actions.prefer({ listOpen: !listOpen }));
}
