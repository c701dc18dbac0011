/** Whether the window has room for the thread list beside the conversation. */

import { useSyncExternalStore } from "react";

// The same width as the `wide` breakpoint in style/page.css.
const NARROW = "(width < 720px)";

export function useIsNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => matchMedia(NARROW).matches);
}

function subscribe(listener: () => void): () => void {
  const query = matchMedia(NARROW);
  query.addEventListener("change", listener);
  return () => query.removeEventListener("change", listener);
}
