/** Switch of the start page for a temporary chat, and its banner. */

import { Hourglass } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { Button } from "@/ui/Button";
import { Switch } from "@/ui/Switch";

export function TemporarySwitch() {
  const { workspace: strings } = useStrings();
  const actions = useActions();
  const on = usePage((page) => page.startsTemporary);
  return (
    <div className="mx-auto flex w-full max-w-[46rem] items-center gap-2 px-4 pt-2 pb-3 text-small text-soft">
      <Switch on={on} label={strings.temporary} onSwitch={actions.startTemporary} />
      <span aria-hidden className="whitespace-nowrap">
        {strings.temporary}
      </span>
      {on && <span className="animate-appear text-faint">{strings.temporaryHint}</span>}
    </div>
  );
}

export function TemporaryBanner() {
  const { workspace: strings } = useStrings();
  const actions = useActions();
  const temporary = usePage(({ threadId, temporaryId }) => threadId !== null && threadId === temporaryId);
  if (!temporary) return null;
  return (
    <div className="flex items-center justify-center gap-2 border-b border-line bg-rail px-4 py-1.5 text-small text-soft">
      <Hourglass aria-hidden className="size-4 shrink-0" />
      {strings.temporaryBanner}
      <Button onClick={() => void actions.open(null)}>{strings.temporaryEnd}</Button>
    </div>
  );
}
