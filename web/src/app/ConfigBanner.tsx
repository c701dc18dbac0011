/** Warning that the configuration files of the server are invalid. */

import { TriangleAlert } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useConfigProblem } from "@/state/models";

export function ConfigBanner() {
  const strings = useStrings();
  const problem = useConfigProblem();
  if (problem === null) return null;
  return (
    <section
      aria-label={strings.invalidConfig}
      className="flex gap-2 border-b border-warning/40 bg-warning-tint px-4 py-2 text-small text-warning"
    >
      <TriangleAlert aria-hidden className="mt-px size-4 shrink-0" />
      <div className="min-w-0">
        <p>
          <strong className="font-semibold">{strings.invalidConfig}.</strong> {strings.invalidConfigHint}
        </p>
        <pre className="whitespace-pre-wrap font-mono">{problem}</pre>
      </div>
    </section>
  );
}
