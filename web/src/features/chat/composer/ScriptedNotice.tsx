/** Notice of the demo model, with the way to a real one. */

import { Info } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { useCurrentModel, useStarters } from "@/state/models";

export function ScriptedNotice() {
  const strings = useStrings();
  const actions = useActions();
  const scripted = useCurrentModel()?.scripted === true;
  const starts = usePage((page) => page.threadId === null);
  const guide = useStarters().find(({ id }) => id === "real-model");
  if (!scripted) return null;
  return (
    <p className="relative mt-2 flex flex-wrap gap-x-2 pr-1 pl-6 text-small text-faint">
      <Info aria-hidden className="absolute top-0.5 left-1 size-3.5" />
      {strings.scriptedNotice}
      <button
        type="button"
        onClick={() => actions.connectModel({ connectionId: null })}
        className="font-medium text-accent underline underline-offset-2"
      >
        {strings.connectModel}
      </button>
      {starts && guide !== undefined && (
        <button
          type="button"
          onClick={() => void actions.send(guide.prompt)}
          className="underline underline-offset-2 hover:text-ink"
        >
          {strings.starterTitles["real-model"]}
        </button>
      )}
    </p>
  );
}
