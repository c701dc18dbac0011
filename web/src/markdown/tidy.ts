/** Prevents flicker of incomplete Markdown while streaming. */

// A last line of these may become a rule, heading underline, list item, fence or quote.
const UNDECIDED_LINE = /(^|\n) {0,3}([-=]+|\*{1,3}|_{1,3}|\+|#{1,6}|>|`{1,3}|~{1,3}|\d{1,9}[.)]?|\|)[ \t]*$/;
const HALF_LINK = /!?\[([^\]\n]*)(?:\]\([^)\s]*)?$/;

/** Hold back an ambiguous last line and close open code, bold and link marks. */
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
  // "**" closes bold only after a word; empty bold is hidden.
  const trimmed = closed.trimEnd();
  return trimmed.endsWith("*") ? trimmed.replace(/\*+$/, "") : `${trimmed}**`;
}

function count(text: string, mark: string): number {
  return text.split(mark).length - 1;
}
