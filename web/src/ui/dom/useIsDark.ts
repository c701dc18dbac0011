/** Return true if the page is shown in dark colours. */

import { useSyncExternalStore } from "react";

const DARK = "(prefers-color-scheme: dark)";

export function useIsDark(): boolean {
  return useSyncExternalStore(subscribe, isDark);
}

function isDark(): boolean {
  const { theme } = document.documentElement.dataset;
  return theme === undefined ? matchMedia(DARK).matches : theme === "dark";
}

function subscribe(listener: () => void): () => void {
  const media = matchMedia(DARK);
  const attribute = new MutationObserver(listener);
  media.addEventListener("change", listener);
  attribute.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return () => {
    media.removeEventListener("change", listener);
    attribute.disconnect();
  };
}
