/** Mode picker. */

import { ChevronDown } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { isMode, MODES, rememberMode } from "@/state/modes";
import { currentMode } from "@/state/page";
import { focusAfterChoice } from "@/ui/dom/composerFocus";
import { Menu, MenuChoice } from "@/ui/Menu";

export function ModePicker() {
  const strings = useStrings();
  const actions = useActions();
  const mode = usePage(currentMode);
  const modes = usePage((page) => page.preferences.modes);
  const threadId = usePage((page) => page.threadId);
  const choose = (value: string) => {
    if (!isMode(value)) return;
    actions.prefer({
      mode: value,
      ...(threadId !== null && { modes: rememberMode(modes, threadId, value) }),
    });
  };
  return (
    <Menu
      side="top"
      movesFocus={focusAfterChoice}
      trigger={
        <button
          type="button"
          aria-label={`${strings.chooseMode}: ${strings.modes[mode].name}`}
          className="flex h-8 shrink-0 items-center gap-1 rounded-box px-2 text-small text-soft hover:bg-tint hover:text-ink"
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
        onChoose={choose}
      />
    </Menu>
  );
}
