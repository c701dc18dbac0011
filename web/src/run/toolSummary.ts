/** The most informative argument of a tool call. */

// Most informative first.
const SUMMARY_KEYS = ["command", "pattern", "query", "path", "file_path", "url", "question", "name"];

/** Return its first line or null; `find` looks up an argument. */
export function summaryLine(find: (key: string) => string): string | null {
  const summary = SUMMARY_KEYS.map(find).find((text) => text.trim() !== "");
  return summary === undefined ? null : (summary.trim().split("\n")[0] ?? "");
}

/** Return the summary of complete arguments. */
export function summaryArgument(args: unknown): string {
  const known =
    typeof args === "object" && args !== null ? new Map<string, unknown>(Object.entries(args)) : new Map();
  const find = (key: string) => {
    const value = known.get(key);
    return typeof value === "string" ? value : "";
  };
  return summaryLine(find) ?? "";
}
