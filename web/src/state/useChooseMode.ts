/** Selection of the mode of the open thread and of new ones. */

import { useActions, usePage } from "@/state/context";
import { type Mode, rememberMode } from "@/state/modes";

export function useChooseMode(): (mode: Mode) => void {
  const actions = useActions();
  const modes = usePage((page) => page.preferences.modes);
  const threadId = usePage((page) => page.threadId);
  return (mode) =>
    actions.prefer({ mode, ...(threadId !== null && { modes: rememberMode(modes, threadId, mode) }) });
}
