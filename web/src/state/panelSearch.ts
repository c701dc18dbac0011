/** URL search parameters of the panel. */

export const PANEL_TABS = ["artifacts", "files", "run"] as const;
export type PanelTab = (typeof PANEL_TABS)[number];

export interface PanelSearch {
  readonly panel?: PanelTab;
  /** Virtual path of the open file. */
  readonly file?: string;
}

export function panelSearch(search: Record<string, unknown>): PanelSearch {
  const { panel, file } = search;
  return { ...(isTab(panel) && { panel }), ...(typeof file === "string" && file !== "" && { file }) };
}

export function isTab(value: unknown): value is PanelTab {
  return PANEL_TABS.some((tab) => tab === value);
}
