/** Version switcher: ‹ 2/3 ›. */

import { ChevronLeft, ChevronRight } from "lucide-react";
import { useStrings } from "@/i18n/context";
import type { Fork } from "@/run/branches";
import { isActive } from "@/run/reduce";
import { useActions, usePage } from "@/state/context";
import { IconButton } from "@/ui/IconButton";

export function Versions({ fork: { runs, back } }: { fork: Fork }) {
  const strings = useStrings();
  const actions = useActions();
  const rewoundRuns = usePage(({ conversation }) => conversation.rewoundRuns);
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const all = runs.length + 1;
  const goTo = (steps: number) => {
    const others = [...rewoundRuns].filter((run) => !runs.includes(run));
    actions.selectVersion(new Set([...others, ...runs.slice(0, steps)]));
  };
  return (
    <fieldset aria-label={strings.versions} className="flex items-center text-small text-faint">
      <IconButton
        icon={ChevronLeft}
        label={strings.olderVersion}
        disabled={active || back >= runs.length}
        onClick={() => goTo(back + 1)}
      />
      <span className="min-w-8 text-center tabular-nums">{`${all - back}/${all}`}</span>
      <IconButton
        icon={ChevronRight}
        label={strings.newerVersion}
        disabled={active || back === 0}
        onClick={() => goTo(back - 1)}
      />
    </fieldset>
  );
}
