/** Sorting of table rows. */

export interface Sorting {
  readonly column: number;
  readonly order: "ascending" | "descending";
}

type Rows = readonly (readonly string[])[];

/** Sort numbers before texts; empty cells come last in both orders. */
export function sortRows(rows: Rows, sorting: Sorting | null): Rows {
  if (sorting === null) return rows;
  const { column, order } = sorting;
  const keys = new Map(rows.map((row) => [row, numberIn(row[column] ?? "")]));
  const texts = new Intl.Collator(undefined, { numeric: true });
  const sign = order === "ascending" ? 1 : -1;
  return rows.toSorted((a, b) => {
    const [left, right] = [a[column] ?? "", b[column] ?? ""];
    if (left === "" || right === "") return Number(left === "") - Number(right === "");
    const [one, other] = [keys.get(a) ?? null, keys.get(b) ?? null];
    if (one !== null && other !== null) return sign * (one - other);
    if (one !== null || other !== null) return sign * (one === null ? 1 : -1);
    return sign * texts.compare(left, right);
  });
}

const NUMBER = /^[^\d.-]{0,3}(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*[^\d\s]{0,3}$/i;

/** Return the number that a cell shows, with its unit or currency; null for texts. */
export function numberIn(cell: string): number | null {
  const text = cell.trim();
  // The sign may be in front of the currency.
  const isNegative = /^-[^\d.]/.test(text);
  const found = NUMBER.exec(isNegative ? text.slice(1) : text)?.[1];
  const number = found === undefined ? Number.NaN : Number(found.replaceAll(",", ""));
  if (!Number.isFinite(number)) return null;
  return isNegative ? -number : number;
}

/** Split a heading off: a first row of texts above other rows. */
export function splitHead(rows: Rows): { readonly head: readonly string[]; readonly rows: Rows } {
  const [first = [], ...rest] = rows;
  const isHead =
    rest.length > 0 && first.length > 0 && first.every((cell) => cell !== "" && numberIn(cell) === null);
  if (isHead) return { head: first, rows: rest };
  const width = Math.max(0, ...rows.map((row) => row.length));
  return { head: Array.from({ length: width }, (_, column) => letters(column)), rows };
}

/** Return the letters of a column: A, B … Z, AA. */
export function letters(column: number): string {
  const last = String.fromCharCode(65 + (column % 26));
  return column < 26 ? last : letters(Math.floor(column / 26) - 1) + last;
}
