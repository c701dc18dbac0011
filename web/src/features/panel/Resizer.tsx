/** Resize handle of the panel. */

import type { KeyboardEvent, PointerEvent } from "react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { allowedWidth, PANEL_WIDTHS } from "@/state/preferences";

const STEP = 2;

export function Resizer() {
  const strings = useStrings();
  const actions = useActions();
  const width = usePage((page) => page.preferences.panelWidth);

  const onPointerMove = (event: PointerEvent<HTMLDivElement>) => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const whole = event.currentTarget.parentElement?.parentElement?.getBoundingClientRect();
    if (whole === undefined || whole.width === 0) return;
    const wanted = allowedWidth(((whole.right - event.clientX) / whole.width) * 100);
    if (wanted !== width) actions.prefer({ panelWidth: wanted });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const change = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (change === undefined) return;
    event.preventDefault();
    actions.prefer({ panelWidth: allowedWidth(width + change) });
  };

  return (
    // biome-ignore lint/a11y/useSemanticElements: a line cannot be moved, this can
    <div
      role="separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label={strings.panelWidth}
      aria-valuenow={width}
      aria-valuemin={PANEL_WIDTHS.least}
      aria-valuemax={PANEL_WIDTHS.most}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={onPointerMove}
      onKeyDown={onKeyDown}
      className="absolute inset-y-0 -left-1 z-10 w-2 cursor-col-resize touch-none hover:bg-accent/30 focus-visible:bg-accent/40 focus-visible:outline-none active:bg-accent/40"
    />
  );
}
