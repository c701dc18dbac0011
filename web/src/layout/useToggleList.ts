/** Toggles the thread list. */

import { useActions, usePage } from "@/state/context";
import { useIsNarrow } from "@/ui/dom/useIsNarrow";

/** Toggle the thread list, or the drawer on narrow screens. */
export function useToggleList(): () => void {
  const actions = useActions();
  const narrow = useIsNarrow();
  const drawerOpen = usePage((page) => page.drawerOpen);
  const listOpen = usePage((page) => page.preferences.listOpen);
  return () => (narrow ? actions.setDrawerOpen(!drawerOpen) : actions.prefer({ listOpen: !listOpen }));
}
