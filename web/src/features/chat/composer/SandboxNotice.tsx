/** Notice that commands are off, with the remedy. */

import { ShieldOff } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useSandbox } from "@/state/sandbox";
import { InlineCode } from "@/ui/InlineCode";

export function SandboxNotice() {
  const strings = useStrings();
  const sandbox = useSandbox();
  if (sandbox?.tier !== "none") return null;
  const { problem, remedy } = sandbox;
  return (
    <p className="mt-2 flex gap-2 px-1 text-small text-faint">
      <ShieldOff aria-hidden className="mt-0.5 size-3.5 shrink-0" />
      <span className="min-w-0 [overflow-wrap:anywhere]">
        <InlineCode text={`${strings.commandsOff} ${sentence(problem ?? "")} ${sentence(remedy ?? "")}`} />
      </span>
    </p>
  );
}
