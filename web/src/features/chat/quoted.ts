/** Quotes in messages. */

// Longer quotes say little more, and every character is sent.
const LONGEST = 2000;

/** Return the text before the draft as a Markdown quote. */
export function quoted(text: string, draft: string): string {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  const quote = cut
    .split("\n")
    .map((line) => (line.trim() === "" ? ">" : `> ${line.trim()}`))
    .join("\n");
  return `${quote}\n\n${draft}`;
}
