/** Opens the thread the address means, however the address has come to mean it. */

import type { RouterHistory } from "@tanstack/react-router";
import type { Actions } from "@/app/actions";
import { threadInPath } from "@/app/address";
import type { Page, PageAction } from "@/app/page";
import type { Store } from "@/app/store";

export function followAddress(
  addresses: RouterHistory,
  store: Store<Page, PageAction>,
  actions: Pick<Actions, "open" | "drawer">,
): void {
  addresses.subscribe(({ location }) => {
    actions.drawer(false);
    const threadId = threadInPath(location.pathname);
    // Other views leave the thread as it is: its answer goes on being read.
    if (threadId !== undefined && threadId !== store.get().threadId) void actions.open(threadId, "pop");
  });
}
