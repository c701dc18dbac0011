/** Line diff of two texts. */

export type Sign = " " | "−" | "+";

export interface DiffLine {
  readonly sign: Sign;
  readonly text: string;
}

/** Return the lines with their change sign. */
export function diffLines(before: string, after: string): readonly DiffLine[] {
  const [old, now] = [linesOf(before), linesOf(after)];
  const shorter = Math.min(old.length, now.length);
  let head = 0;
  while (head < shorter && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < shorter - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const signed = (sign: Sign, lines: readonly string[]) => lines.map((text) => ({ sign, text }));
  return [
    ...signed(" ", old.slice(0, head)),
    ...signed("−", old.slice(head, old.length - tail)),
    ...signed("+", now.slice(head, now.length - tail)),
    ...signed(" ", old.slice(old.length - tail)),
  ];
}

function linesOf(text: string): readonly string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}
