/** Branching of the open thread. */

import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { useThread } from "@/state/threadList";

/** Return a function that branches at a message; the title of the new thread says so. */
export function useBranch(): (messageId: string) => void {
  const { branchTitle } = useStrings().workspace;
  const actions = useActions();
  const written = usePage(({ conversation }) => conversation.title);
  const title = useThread(usePage((page) => page.threadId))?.title ?? written;
  return (messageId) => void actions.branch(messageId, title === null ? null : branchTitle(title));
}
