/** Preferences stored in this browser. */

import type { MultitaskStrategy } from "@/api/queuedMessage";
import type { Language } from "@/i18n/i18n";
import { isMode, type Mode } from "@/state/modes";
import { isTab, type PanelTab } from "@/state/panelSearch";

export type Theme = "system" | "light" | "dark";

export type Watched = "busy" | "unread";

export interface Preferences {
  readonly theme: Theme;
  /** Null for the browser's language. */
  readonly language: Language | null;
  /** Null for the server's default model. */
  readonly model: string | null;
  readonly mode: Mode;
  /** Modes by thread id. */
  readonly modes: Readonly<Record<string, Mode>>;
  /** Effect of a message sent during a run. */
  readonly strategy: MultitaskStrategy;
  /** Number of messages sent, as far as it matters for hints. */
  readonly sentMessages: number;
  /** Notify in the background when a task is done or waits. */
  readonly notify: boolean;
  /** Threads seen running, and those that finished unseen. */
  readonly watched: Readonly<Record<string, Watched>>;
  /** Open the panel for the first result of a thread. */
  readonly autoOpenPanel: boolean;
  /** Amount to spend in a month, in the currency of the prices; null for none. */
  readonly monthlyBudget: number | null;
  readonly listOpen: boolean;
  readonly panelOpen: boolean;
  readonly panelTab: PanelTab;
  /** Panel width in percent of the space next to the list. */
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
  strategy: "enqueue",
  sentMessages: 0,
  notify: false,
  watched: {},
  autoOpenPanel: true,
  monthlyBudget: null,
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
    return DEFAULT_PREFERENCES; // invalid or blocked storage must not break the page
  }
}

export function writePreferences(storage: Storage, preferences: Preferences): void {
  try {
    storage.setItem(KEY, JSON.stringify(preferences));
  } catch {
    // Full or blocked storage: preferences last until the page is closed.
  }
}

function checked(stored: Record<string, unknown>): Preferences {
  // Earlier versions stored the strategy as `manner`.
  const { theme, language, model, mode, modes, manner, strategy = manner, listOpen } = stored;
  const { panelOpen, panelTab, panelWidth } = stored;
  return {
    theme: theme === "light" || theme === "dark" ? theme : "system",
    language: language === "en" || language === "zh" ? language : null,
    model: typeof model === "string" ? model : null,
    mode: isMode(mode) ? mode : "thinking",
    modes: Object.fromEntries(Object.entries(modes ?? {}).filter(([, chosen]) => isMode(chosen))),
    strategy: strategy === "interrupt" || strategy === "steer" ? strategy : "enqueue",
    sentMessages: typeof stored.sentMessages === "number" ? stored.sentMessages : 0,
    notify: stored.notify === true,
    watched: Object.fromEntries(
      Object.entries(stored.watched ?? {}).filter(([, mark]) => mark === "busy" || mark === "unread"),
    ),
    autoOpenPanel: stored.autoOpenPanel !== false,
    monthlyBudget: typeof stored.monthlyBudget === "number" ? stored.monthlyBudget : null,
    listOpen: listOpen !== false,
    panelOpen: panelOpen === true,
    panelTab: isTab(panelTab) ? panelTab : DEFAULT_PREFERENCES.panelTab,
    panelWidth: typeof panelWidth === "number" ? allowedWidth(panelWidth) : DEFAULT_PREFERENCES.panelWidth,
  };
}

/** Clamp a panel width to its limits. */
export function allowedWidth(width: number): number {
  return Math.min(Math.max(Math.round(width), PANEL_WIDTHS.least), PANEL_WIDTHS.most);
}
