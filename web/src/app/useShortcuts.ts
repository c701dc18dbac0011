/** Global keyboard shortcuts. */

import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { useToggleList } from "@/layout/useToggleList";
import { useActions, usePage } from "@/state/context";
import { useTogglePanel } from "@/state/usePanel";
import { focusComposer, hasComposer } from "@/ui/dom/composerFocus";
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
    // A question mark and a slash need Shift on some keyboards.
    const plain = (key: string): (() => void) | undefined => {
      if (key === "?") return () => void navigate({ to: "/settings", hash: "keyboard" });
      return key === "/" && hasComposer() ? focusComposer : undefined;
    };
    const onKeyDown = (event: KeyboardEvent) => {
      // Already handled, for example by an open menu.
      if (event.defaultPrevented || event.isComposing) return;
      const held = event.ctrlKey || event.metaKey;
      const name = `${event.shiftKey ? "shift+" : ""}${event.key.toLowerCase()}`;
      const isText = isInField(event.target) || isInDialog(event.target);
      const command = held ? commands[name] : isText ? undefined : plain(event.key);
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
