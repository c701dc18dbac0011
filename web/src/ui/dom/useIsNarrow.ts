/** Return true if the window is too narrow for the thread list. */

import { useMedia } from "@/ui/dom/useMedia";

// The same width as the `wide` breakpoint in style/page.css.
const NARROW = "(width < 720px)";

export function useIsNarrow(): boolean {
  return useMedia(NARROW);
}
