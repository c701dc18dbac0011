/** Notice of the demo model, with the way to a real one. */

import { Info } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useActions } from "@/state/context";
import { useCurrentModel } from "@/state/models";

export function ScriptedNotice() {
  const strings = useStrings();
  const actions = useActions();
  const scripted = useCurrentModel()?.scripted === true;
  if (!scripted) return null;
  return (
    <p className="mt-2 flex flex-wrap items-center gap-x-2 px-1 text-small text-faint">
      <Info aria-hidden className="size-3.5 shrink-0" />
      {strings.scriptedNotice}
      <button
        type="button"
        onClick={() => actions.connectModel({ connectionId: null })}
        className="font-medium text-accent underline underline-offset-2"
      >
        {strings.connectModel}
      </button>
    </p>
  );
}
