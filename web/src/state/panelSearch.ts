/** URL search parameters of the panel. */

export const PANEL_TABS = ["artifacts", "files", "changes", "run"] as const;
export type PanelTab = (typeof PANEL_TABS)[number];

export interface PanelSearch {
  readonly panel?: PanelTab;
  /** Virtual path of the open file. */
  readonly file?: string;
  /** Run whose file changes are shown. */
  readonly run?: string;
}

export function panelSearch(search: Record<string, unknown>): PanelSearch {
  const { panel, file, run } = search;
  return {
    ...(isTab(panel) && { panel }),
    ...(typeof file === "string" && file !== "" && { file }),
    ...(typeof run === "string" && run !== "" && { run }),
  };
}

export function isTab(value: unknown): value is PanelTab {
  return PANEL_TABS.some((tab) => tab === value);
}
