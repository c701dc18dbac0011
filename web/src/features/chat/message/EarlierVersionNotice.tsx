/** Notice of an earlier version, with a link to the latest. */

import { History } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { Button } from "@/ui/Button";

export function EarlierVersionNotice() {
  const strings = useStrings();
  const actions = useActions();
  const looking = usePage(({ conversation }) => conversation.rewoundRuns.size > 0);
  if (!looking) return null;
  return (
    <div className="flex animate-appear items-center gap-3 rounded-box border border-line bg-rail px-4 py-3 text-small text-soft">
      <History aria-hidden className="size-4 shrink-0" />
      <p className="min-w-0 flex-1">{strings.earlierVersion}</p>
      <Button onClick={() => actions.selectVersion(new Set())}>{strings.showLatest}</Button>
    </div>
  );
}
