/** Keeps half-written Markdown from flickering while its end is still on the way. */

// A last line of only these may yet become a rule, a heading's underline, a list item, a fence or a quote.
const UNDECIDED_LINE = /(^|\n) {0,3}([-=]+|\*{1,3}|_{1,3}|\+|#{1,6}|>|`{1,3}|~{1,3}|\d{1,9}[.)]?|\|)[ \t]*$/;
const HALF_LINK = /!?\[([^\]\n]*)(?:\]\([^)\s]*)?$/;

/** `text` with an undecided last line held back and open code, bold and link marks completed. */
export function tidyOpenEnd(text: string): string {
  const decided = text.replace(UNDECIDED_LINE, "$1");
  const paragraphAt = decided.lastIndexOf("\n\n") + 1;
  return decided.slice(0, paragraphAt) + completeMarks(decided.slice(paragraphAt));
}

function completeMarks(text: string): string {
  if (count(text, "`") % 2 === 1) return `${text}\``;
  const prose = text.replace(/`[^`]*`/g, (code) => " ".repeat(code.length));
  const link = HALF_LINK.exec(prose);
  const closed = link === null ? text : text.slice(0, link.index) + (link[1] ?? "");
  if (count(prose, "**") % 2 === 0) return closed;
  // "**" closes bold only right after a word; a bold that has no word yet is not shown at all.
  const trimmed = closed.trimEnd();
  return trimmed.endsWith("*") ? trimmed.replace(/\*+$/, "") : `${trimmed}**`;
}

function count(text: string, mark: string): number {
  return text.split(mark).length - 1;
}
