/** The argument that says most about a tool call. */

// The most telling first.
const TELLING = ["command", "pattern", "query", "path", "file_path", "url", "question", "name"];

/** The first line of it, or nothing. `find` is how a text among the arguments is found. */
export function tellingLine(find: (key: string) => string): string | null {
  const telling = TELLING.map(find).find((text) => text.trim() !== "");
  return telling === undefined ? null : (telling.trim().split("\n")[0] ?? "");
}

/** What says most among arguments that are all there. */
export function tellingArgument(args: unknown): string {
  const known =
    typeof args === "object" && args !== null ? new Map<string, unknown>(Object.entries(args)) : new Map();
  const find = (key: string) => {
    const value = known.get(key);
    return typeof value === "string" ? value : "";
  };
  return tellingLine(find) ?? "";
}
