/** Notice of the demo model. */

import { Info } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useCurrentModel } from "@/state/models";

export function ScriptedNotice() {
  const strings = useStrings();
  const scripted = useCurrentModel()?.scripted === true;
  if (!scripted) return null;
  return (
    <p className="mt-2 flex gap-2 px-1 text-small text-faint">
      <Info aria-hidden className="mt-0.5 size-3.5 shrink-0" />
      <span>
        {strings.scriptedNotice}{" "}
        <code className="font-mono whitespace-nowrap text-soft">deerflow config init</code>.
      </span>
    </p>
  );
}
