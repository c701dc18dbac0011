/** Says that an earlier version is shown, and leads back to the latest. */

import { History } from "lucide-react";
import { useActions, usePage, useStrings } from "@/app/context";
import { Button } from "@/ui/Button";

export function EarlierVersionNotice() {
  const strings = useStrings();
  const actions = useActions();
  const looking = usePage(({ conversation }) => conversation.undone.size > 0);
  if (!looking) return null;
  return (
    <div className="flex animate-appear items-center gap-3 rounded-box border border-line bg-rail px-4 py-3 text-small text-soft">
      <History aria-hidden className="size-4 shrink-0" />
      <p className="min-w-0 flex-1">{strings.earlierVersion}</p>
      <Button onClick={() => actions.lookBack(new Set())}>{strings.showLatest}</Button>
    </div>
  );
}
