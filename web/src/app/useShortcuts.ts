/** Keys that work everywhere on the page. */

import { useEffect } from "react";
import { useActions, usePage } from "@/app/context";
import { useTogglePanel } from "@/features/panel/usePanel";
import { useIsNarrow } from "@/ui/useIsNarrow";

export function useShortcuts(): void {
  const actions = useActions();
  const toggleList = useToggleList();
  const togglePanel = useTogglePanel();
  const paletteOpen = usePage((page) => page.paletteOpen);

  useEffect(() => {
    const commands: Readonly<Record<string, () => void>> = {
      b: toggleList,
      k: () => actions.palette(!paletteOpen),
      ".": togglePanel,
    };
    const onKeyDown = (event: KeyboardEvent) => {
      // Whoever handled the key (an open menu, say) has had its meaning.
      if (event.defaultPrevented || event.isComposing) return;
      const command = event.ctrlKey || event.metaKey ? commands[event.key.toLowerCase()] : undefined;
      if (command !== undefined) {
        event.preventDefault();
        command();
      } else if (event.key === "Escape" && !isInDialog(event.target)) {
        void actions.stop();
      }
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, [actions, toggleList, togglePanel, paletteOpen]);
}

/** Escape means to close a dialog to whoever is in one. */
function isInDialog(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("dialog") !== null;
}

/** Opens or closes the list of threads, which is a drawer where there is little room. */
export function useToggleList(): () => void {
  const actions = useActions();
  const narrow = useIsNarrow();
  const drawerOpen = usePage((page) => page.drawerOpen);
  const listOpen = usePage((page) => page.preferences.listOpen);
  return () => (narrow ? actions.drawer(!drawerOpen) : actions.prefer({ listOpen: !listOpen }));
}
