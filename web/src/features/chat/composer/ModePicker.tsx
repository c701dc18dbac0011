/** Mode picker. */

import { ChevronDown } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { usePage } from "@/state/context";
import { isMode, MODES } from "@/state/modes";
import { currentMode } from "@/state/page";
import { useChooseMode } from "@/state/useChooseMode";
import { focusAfterChoice } from "@/ui/dom/composerFocus";
import { Menu, MenuChoice } from "@/ui/Menu";

export function ModePicker() {
  const strings = useStrings();
  const mode = usePage(currentMode);
  const choose = useChooseMode();
  return (
    <Menu
      side="top"
      movesFocus={focusAfterChoice}
      trigger={
        <button
          type="button"
          aria-label={`${strings.chooseMode}: ${strings.modes[mode].name}`}
          className="flex h-9 shrink-0 items-center gap-1 rounded-box px-2 text-small text-soft hover:bg-tint hover:text-ink"
        >
          {strings.modes[mode].name}
          <ChevronDown aria-hidden className="size-3.5 shrink-0" />
        </button>
      }
    >
      <MenuChoice
        label={strings.mode}
        value={mode}
        options={MODES.map((value) => ({ value, ...strings.modes[value] }))}
        onChoose={(value) => isMode(value) && choose(value)}
      />
    </Menu>
  );
}
