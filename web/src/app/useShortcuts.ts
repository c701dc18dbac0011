/** Global keyboard shortcuts. */

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
      k: () => actions.setPaletteOpen(!paletteOpen),
      ".": togglePanel,
    };
    const onKeyDown = (event: KeyboardEvent) => {
      // Already handled, for example by an open menu.
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

/** Escape closes a dialog instead. */
function isInDialog(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("dialog") !== null;
}

/** Toggle the thread list, or the drawer on narrow screens. */
export function useToggleList(): () => void {
  const actions = useActions();
  const narrow = useIsNarrow();
  const drawerOpen = usePage((page) => page.drawerOpen);
  const listOpen = usePage((page) => page.preferences.listOpen);
  return () => (narrow ? actions.setDrawerOpen(!drawerOpen) : actions.prefer({ listOpen: !listOpen }));
}
