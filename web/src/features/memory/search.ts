/** What the address of the memory page says. */

export interface MemorySearch {
  /** The custom agent whose memory is meant. */
  readonly agent?: string;
  readonly view?: "history";
  /** The moment as of which it is shown. */
  readonly as_of?: string;
  /** Words that facts are looked for with. */
  readonly q?: string;
}

export function memorySearch({ agent, view, as_of, q }: Record<string, unknown>): MemorySearch {
  return {
    ...(typeof agent === "string" && agent !== "" && { agent }),
    ...(view === "history" && { view }),
    ...(typeof as_of === "string" && !Number.isNaN(Date.parse(as_of)) && { as_of }),
    // The router reads what looks like a number as one.
    ...((typeof q === "string" || typeof q === "number") && q !== "" && { q: String(q) }),
  };
}

const COMMAND = /^\/memory(?:\s+(.*))?$/s;

/** Where `/memory`, written as a message, leads; null where a text is none. */
export function memoryCommand(text: string): MemorySearch | null {
  const found = COMMAND.exec(text.trim());
  if (found === null) return null;
  const argument = (found[1] ?? "").trim();
  if (argument === "undo" || argument === "history") return { view: "history" };
  return argument === "" ? {} : { q: argument };
}
