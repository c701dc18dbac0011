/** Global keyboard shortcuts. */

import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { useToggleList } from "@/layout/useToggleList";
import { useActions, usePage } from "@/state/context";
import { useTogglePanel } from "@/state/usePanel";
import { pressShortcut } from "@/ui/dom/pressShortcut";

export function useShortcuts(): void {
  const actions = useActions();
  const toggleList = useToggleList();
  const togglePanel = useTogglePanel();
  const navigate = useNavigate();
  const paletteOpen = usePage((page) => page.paletteOpen);

  useEffect(() => {
    const commands: Readonly<Record<string, () => void>> = {
      b: toggleList,
      k: () => actions.setPaletteOpen(!paletteOpen),
      ".": togglePanel,
      "shift+o": () => void actions.open(null),
      ",": () => void navigate({ to: "/settings" }),
      "/": () => pressShortcut("thread"),
      "shift+l": () => pressShortcut("share"),
      "shift+y": () => pressShortcut("context"),
    };
    const showKeys = () => void navigate({ to: "/settings", hash: "keyboard" });
    const onKeyDown = (event: KeyboardEvent) => {
      // Already handled, for example by an open menu.
      if (event.defaultPrevented || event.isComposing) return;
      const held = event.ctrlKey || event.metaKey;
      const name = `${event.shiftKey ? "shift+" : ""}${event.key.toLowerCase()}`;
      // A question mark needs Shift on some keyboards.
      const help = event.key === "?" && !held && !isInField(event.target) ? showKeys : undefined;
      const command = held ? commands[name] : help;
      if (command !== undefined) {
        event.preventDefault();
        command();
      } else if (event.key === "Escape" && !isInDialog(event.target)) {
        void actions.stop();
      }
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, [actions, navigate, toggleList, togglePanel, paletteOpen]);
}

/** In a field the key is text. */
function isInField(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("input, textarea, [contenteditable]") !== null;
}

/** Escape closes a dialog instead. */
function isInDialog(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("dialog") !== null;
}
