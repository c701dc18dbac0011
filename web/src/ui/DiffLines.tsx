/** Coloured diff of two texts. */

import type { DiffLine, Sign } from "@/ui/diff";

const LOOKS: Readonly<Record<Sign, string>> = {
  " ": "text-faint",
  "−": "bg-error-tint text-error",
  "+": "bg-done-tint text-done",
};

export function DiffLines({ lines }: { lines: readonly DiffLine[] }) {
  return lines.map(({ sign, text }, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: what is compared never changes
    <div key={index} className={`flex gap-2 px-1 ${LOOKS[sign]}`}>
      <span className="w-2 shrink-0 select-none">{sign}</span>
      <span className="min-w-0">{text || " "}</span>
    </div>
  ));
}
