/** Global keyboard shortcuts. */

import { useEffect } from "react";
import { useToggleList } from "@/layout/useToggleList";
import { useActions, usePage } from "@/state/context";
import { useTogglePanel } from "@/state/usePanel";

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
