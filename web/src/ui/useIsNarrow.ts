/** Whether the window has room for the thread list beside the conversation. */

import { useMedia } from "@/ui/useMedia";

// The same width as the `wide` breakpoint in style/page.css.
const NARROW = "(width < 720px)";

export function useIsNarrow(): boolean {
  return useMedia(NARROW);
}
