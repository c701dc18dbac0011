/** Says beside the composer that the agent cannot run commands, and how it could. */

import { ShieldOff } from "lucide-react";
import { usePage, useWords } from "@/app/context";
import { WithCode } from "@/ui/WithCode";
import { sentence } from "@/words/words";

export function SandboxNotice() {
  const words = useWords();
  const sandbox = usePage((page) => page.sandbox);
  if (sandbox?.tier !== "none") return null;
  const { problem, remedy } = sandbox;
  return (
    <p className="mt-2 flex gap-2 px-1 text-small text-faint">
      <ShieldOff aria-hidden className="mt-0.5 size-3.5 shrink-0" />
      <span className="min-w-0 [overflow-wrap:anywhere]">
        <WithCode text={`${words.commandsOff} ${sentence(problem ?? "")} ${sentence(remedy ?? "")}`} />
      </span>
    </p>
  );
}
