/** Keys that work everywhere on the page. */

import { useEffect } from "react";
import { useActions, usePage } from "@/app/context";
import { useIsNarrow } from "@/ui/useIsNarrow";

export function useShortcuts(): void {
  const actions = useActions();
  const toggleList = useToggleList();
  const drawerOpen = usePage((page) => page.drawerOpen);

  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      // Whoever handled the key (an open menu, say) has had its meaning.
      if (event.defaultPrevented || event.isComposing) return;
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "b") {
        event.preventDefault();
        toggleList();
      } else if (event.key === "Escape" && !drawerOpen) {
        void actions.stop();
      }
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, [actions, toggleList, drawerOpen]);
}

/** Opens or closes the list of threads, which is a drawer where there is little room. */
export function useToggleList(): () => void {
  const actions = useActions();
  const narrow = useIsNarrow();
  const drawerOpen = usePage((page) => page.drawerOpen);
  const listOpen = usePage((page) => page.preferences.listOpen);
  return () => (narrow ? actions.drawer(!drawerOpen) : actions.prefer({ listOpen: !listOpen }));
}
