/** Send, send options and stop buttons. */

import { ArrowUp, ChevronDown, Square } from "lucide-react";
import type { MultitaskStrategy } from "@/api/queuedMessage";
import { useStrings } from "@/i18n/context";
import { isActive } from "@/run/reduce";
import { useActions, usePage } from "@/state/context";
import { focusAfterChoice } from "@/ui/dom/composerFocus";
import { Menu, MenuChoice } from "@/ui/Menu";

const STRATEGIES: readonly MultitaskStrategy[] = ["enqueue", "steer", "interrupt"];
const LOOK =
  "inline-flex size-9 shrink-0 items-center justify-center rounded-box disabled:bg-tint-strong disabled:text-faint";

export function SendButtons({ canSend }: { canSend: boolean }) {
  const strings = useStrings();
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const strategy = usePage((page) => page.preferences.strategy);
  const label = active ? strings.strategies[strategy].name : strings.send;
  return (
    <div className="ml-auto flex items-center gap-2">
      {active && <Stop />}
      {(!active || canSend) && (
        <div className="flex items-center">
          <button
            type="submit"
            disabled={!canSend}
            aria-label={label}
            title={label}
            className={`${LOOK} bg-accent text-on-accent hover:bg-accent-strong ${active ? "rounded-r-none" : ""}`}
          >
            <ArrowUp aria-hidden className="size-4" />
          </button>
          {active && <StrategyPicker strategy={strategy} />}
        </div>
      )}
    </div>
  );
}

function StrategyPicker({ strategy }: { strategy: MultitaskStrategy }) {
  const strings = useStrings();
  const actions = useActions();
  return (
    <Menu
      side="top"
      movesFocus={focusAfterChoice}
      align="end"
      trigger={
        <button
          type="button"
          aria-label={strings.sendOptions}
          title={strings.sendOptions}
          className="inline-flex h-9 w-6 items-center justify-center rounded-r-box border-l border-paper/30 bg-accent text-on-accent hover:bg-accent-strong"
        >
          <ChevronDown aria-hidden className="size-3.5" />
        </button>
      }
    >
      <MenuChoice
        label={strings.whileRunning}
        value={strategy}
        options={STRATEGIES.map((value) => ({ value, ...strings.strategies[value] }))}
        onChoose={(value) => actions.prefer({ strategy: value as MultitaskStrategy })}
      />
    </Menu>
  );
}

function Stop() {
  const strings = useStrings();
  const actions = useActions();
  const stopping = usePage(({ conversation }) => conversation.run.stopping);
  const stoppable = usePage(({ conversation }) => conversation.run.id !== null);
  const label = stopping ? strings.stopping : strings.stop;
  return (
    <button
      type="button"
      onClick={() => void actions.stop()}
      disabled={stopping || !stoppable}
      aria-label={label}
      title={label}
      className={`${LOOK} bg-ink text-paper hover:opacity-85`}
    >
      <Square aria-hidden className={`size-3.5 fill-current ${stopping ? "animate-breathe" : ""}`} />
    </button>
  );
}
