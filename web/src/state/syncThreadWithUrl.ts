/** Opens the thread of the current URL. */

import type { RouterHistory } from "@tanstack/react-router";
import type { Actions } from "@/state/actions/actions";
import type { Page, PageAction } from "@/state/page";
import type { Store } from "@/state/store";
import { threadInPath } from "@/state/urls";

export function syncThreadWithUrl(
  history: RouterHistory,
  store: Store<Page, PageAction>,
  actions: Pick<Actions, "open" | "setDrawerOpen">,
): void {
  history.subscribe(({ location }) => {
    actions.setDrawerOpen(false);
    const threadId = threadInPath(location.pathname);
    // Other views keep the thread open; its stream continues.
    if (threadId !== undefined && threadId !== store.get().threadId) void actions.open(threadId, "pop");
  });
}
