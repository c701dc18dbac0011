/** Warning that commands run without isolation. */

import { ShieldAlert } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useSandbox } from "@/state/sandbox";
import { InlineCode } from "@/ui/InlineCode";

export function SandboxBanner() {
  const strings = useStrings();
  const sandbox = useSandbox();
  if (sandbox?.tier !== "host") return null;
  return (
    <section
      aria-label={strings.unsafe}
      className="flex gap-2 border-b border-warning/40 bg-warning-tint px-4 py-2 text-small text-warning"
    >
      <ShieldAlert aria-hidden className="mt-px size-4 shrink-0" />
      <p>
        <strong className="font-semibold">{strings.unsafe}.</strong> {strings.unsafeHint}{" "}
        <InlineCode text={sentence(sandbox.remedy ?? "")} />
      </p>
    </section>
  );
}
