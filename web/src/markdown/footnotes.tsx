/** Footnotes: marks in the text and notes below it. */

import { CornerDownLeft } from "lucide-react";
import { createContext, type ReactNode, use } from "react";
import { useStrings } from "@/i18n/context";
import type { Block } from "@/markdown/blocks";
import type { Footnote } from "@/markdown/lexer";

/** Footnotes of one text. */
export interface Footnotes {
  /** Prefix of element ids. */
  readonly id: string;
  /** Notes in the order of their numbers; none while the text grows. */
  readonly notes: readonly Footnote[];
}

const FootnotesContext = createContext<Footnotes>({ id: "", notes: [] });
export const FootnotesProvider = FootnotesContext;

/** Return the notes of a complete text, ordered by their first mark. */
export function footnotesOf(text: string, blocks: readonly Block[]): readonly Footnote[] {
  if (!text.includes("[^")) return NONE;
  const found = new Map<string, Footnote>();
  for (const token of blocks.flatMap(({ tokens }) => tokens)) {
    if (token.type === "footnote" && !found.has((token as Footnote).label))
      found.set((token as Footnote).label, token as Footnote);
  }
  const place = (label: string) => {
    const at = text.search(new RegExp(`\\[\\^${label.replace(/[^\p{L}\p{N}]/gu, "\\$&")}\\](?!:)`, "u"));
    return at < 0 ? Number.POSITIVE_INFINITY : at;
  };
  return [...found.values()].sort((a, b) => place(a.label) - place(b.label));
}

const NONE: readonly Footnote[] = [];

/** A mark that leads to its note. */
export function FootnoteMark({ label }: { label: string }) {
  const strings = useStrings();
  const { id, notes } = use(FootnotesContext);
  const index = notes.findIndex((note) => note.label === label);
  if (index < 0) return <sup>{`[${label}]`}</sup>;
  return (
    <sup>
      <button
        type="button"
        data-footnote={`${id}${index}`}
        aria-label={strings.footnote(index + 1)}
        onClick={() => moveTo(`${id}-note-${index}`)}
        className="footnote-mark"
      >
        {index + 1}
      </button>
    </sup>
  );
}

/** The text of a note in place, shown while the text grows: later it stands in the list. */
export function FootnoteText({ label, children }: { label: string; children: ReactNode }) {
  const { notes } = use(FootnotesContext);
  if (notes.some((note) => note.label === label)) return null;
  return (
    <div className="footnotes">
      <sup>{label}</sup> {children}
    </div>
  );
}

/** The list of notes below a text. */
export function FootnoteList({ render }: { render: (note: Footnote) => ReactNode }) {
  const strings = useStrings();
  const { id, notes } = use(FootnotesContext);
  if (notes.length === 0) return null;
  return (
    <ol className="footnotes" aria-label={strings.footnotes}>
      {notes.map((note, index) => (
        <li key={note.label} id={`${id}-note-${index}`} tabIndex={-1}>
          {render(note)}
          <button
            type="button"
            aria-label={strings.footnoteBack(index + 1)}
            title={strings.footnoteBack(index + 1)}
            onClick={() => backTo(`${id}${index}`)}
            className="footnote-back"
          >
            <CornerDownLeft aria-hidden className="size-3.5" />
          </button>
        </li>
      ))}
    </ol>
  );
}

function moveTo(elementId: string): void {
  const note = document.getElementById(elementId);
  note?.scrollIntoView({ block: "center" });
  note?.focus({ preventScroll: true });
}

function backTo(mark: string): void {
  const marks = document.querySelectorAll<HTMLElement>("[data-footnote]");
  const button = [...marks].find(({ dataset }) => dataset.footnote === mark);
  button?.scrollIntoView({ block: "center" });
  button?.focus({ preventScroll: true });
}
