/** URL search parameters of the memory page. */

export interface MemorySearch {
  /** Custom agent that owns the memory. */
  readonly agent?: string;
  readonly view?: "history";
  /** Point in time to show. */
  readonly as_of?: string;
  /** Search text. */
  readonly q?: string;
}

export function memorySearch({ agent, view, as_of, q }: Record<string, unknown>): MemorySearch {
  return {
    ...(typeof agent === "string" && agent !== "" && { agent }),
    ...(view === "history" && { view }),
    ...(typeof as_of === "string" && !Number.isNaN(Date.parse(as_of)) && { as_of }),
    // The router parses numeric text as a number.
    ...((typeof q === "string" || typeof q === "number") && q !== "" && { q: String(q) }),
  };
}

const COMMAND = /^\/memory(?:\s+(.*))?$/s;

/** Parse a `/memory` command; returns null for other texts. */
export function memoryCommand(text: string): MemorySearch | null {
  const found = COMMAND.exec(text.trim());
  if (found === null) return null;
  const argument = (found[1] ?? "").trim();
  if (argument === "undo" || argument === "history") return { view: "history" };
  return argument === "" ? {} : { q: argument };
}
