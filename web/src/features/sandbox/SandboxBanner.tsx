/** Says that nothing stands between the agent and this machine, as long as that is so. */

import { ShieldAlert } from "lucide-react";
import { usePage, useWords } from "@/app/context";
import { WithCode } from "@/ui/WithCode";
import { sentence } from "@/words/words";

export function SandboxBanner() {
  const words = useWords();
  const sandbox = usePage((page) => page.sandbox);
  if (sandbox?.tier !== "host") return null;
  return (
    <section
      aria-label={words.unsafe}
      className="flex gap-2 border-b border-warning/40 bg-warning-tint px-4 py-2 text-small text-warning"
    >
      <ShieldAlert aria-hidden className="mt-px size-4 shrink-0" />
      <p>
        <strong className="font-semibold">{words.unsafe}.</strong> {words.unsafeHint}{" "}
        <WithCode text={sentence(sandbox.remedy ?? "")} />
      </p>
    </section>
  );
}
