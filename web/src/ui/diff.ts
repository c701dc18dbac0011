/** Line diff of two texts. */

import { diffArrays } from "diff";

export type Sign = " " | "−" | "+";

export interface DiffLine {
  readonly sign: Sign;
  readonly text: string;
}

// Bounds the cost for long texts without common lines, which are shown as replaced.
const MAX_EDITS = 1000;

/** Return the lines with their change sign. */
export function diffLines(before: string, after: string): readonly DiffLine[] {
  const [old, now] = [linesOf(before), linesOf(after)];
  const parts = diffArrays(old, now, { maxEditLength: MAX_EDITS });
  if (parts === undefined) return [...signed("−", old), ...signed("+", now)];
  return parts.flatMap(({ value, added, removed }) => signed(added ? "+" : removed ? "−" : " ", value));
}

function signed(sign: Sign, lines: readonly string[]): readonly DiffLine[] {
  return lines.map((text) => ({ sign, text }));
}

function linesOf(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}
