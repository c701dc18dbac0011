/** What this browser remembers of its user's choices. */

import { isMode, type Mode } from "@/app/modes";
import { isTab, type PanelTab } from "@/features/panel/search";
import type { Language } from "@/i18n/i18n";
import type { Manner } from "@/run/waiting";

export type Theme = "system" | "light" | "dark";

export interface Preferences {
  readonly theme: Theme;
  /** null: whatever the browser speaks. */
  readonly language: Language | null;
  /** null: the server's default. */
  readonly model: string | null;
  readonly mode: Mode;
  /** The modes last chosen in threads. */
  readonly modes: Readonly<Record<string, Mode>>;
  /** What a message does that is sent while the agent works. */
  readonly manner: Manner;
  readonly listOpen: boolean;
  readonly panelOpen: boolean;
  readonly panelTab: PanelTab;
  /** How much of the room beside the list the panel has, in percent. */
  readonly panelWidth: number;
}

export const PANEL_WIDTHS = { least: 28, most: 60 } as const;

// public/theme.js reads the same key before the first paint.
const KEY = "deerflow.preferences";

export const DEFAULT_PREFERENCES: Preferences = {
  theme: "system",
  language: null,
  model: null,
  mode: "thinking",
  modes: {},
  manner: "enqueue",
  listOpen: true,
  panelOpen: false,
  panelTab: "artifacts",
  panelWidth: 42,
};

export function readPreferences(storage: Storage): Preferences {
  try {
    const stored: unknown = JSON.parse(storage.getItem(KEY) ?? "{}");
    return checked((stored ?? {}) as Record<string, unknown>);
  } catch {
    return DEFAULT_PREFERENCES; // damaged or refused storage is no reason not to start
  }
}

export function writePreferences(storage: Storage, preferences: Preferences): void {
  try {
    storage.setItem(KEY, JSON.stringify(preferences));
  } catch {
    // Full or refused storage: the choice holds until the page is left.
  }
}

function checked(stored: Record<string, unknown>): Preferences {
  const { theme, language, model, mode, modes, manner, listOpen } = stored;
  const { panelOpen, panelTab, panelWidth } = stored;
  return {
    theme: theme === "light" || theme === "dark" ? theme : "system",
    language: language === "en" || language === "zh" ? language : null,
    model: typeof model === "string" ? model : null,
    mode: isMode(mode) ? mode : "thinking",
    modes: Object.fromEntries(Object.entries(modes ?? {}).filter(([, chosen]) => isMode(chosen))),
    manner: manner === "interrupt" || manner === "steer" ? manner : "enqueue",
    listOpen: listOpen !== false,
    panelOpen: panelOpen === true,
    panelTab: isTab(panelTab) ? panelTab : DEFAULT_PREFERENCES.panelTab,
    panelWidth: typeof panelWidth === "number" ? allowedWidth(panelWidth) : DEFAULT_PREFERENCES.panelWidth,
  };
}

/** The width the panel may have that is nearest to `width`. */
export function allowedWidth(width: number): number {
  return Math.min(Math.max(Math.round(width), PANEL_WIDTHS.least), PANEL_WIDTHS.most);
}
