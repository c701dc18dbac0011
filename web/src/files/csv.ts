/** CSV parsing. */

/** Parse cells in one pass; quoted cells may contain separators, quotes and line breaks. */
export function parseTable(text: string, separator: "," | ";" | "\t"): readonly (readonly string[])[] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  const endRow = () => {
    row.push(cell);
    rows.push(row);
    row = [];
    cell = "";
  };
  for (let at = text.charCodeAt(0) === 0xfeff ? 1 : 0; at < text.length; at++) {
    const sign = text[at] ?? "";
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[at + 1] === '"') cell += text[at++];
      else quoted = false;
    } else if (sign === '"' && cell === "") quoted = true;
    else if (sign === separator) {
      row.push(cell);
      cell = "";
    } else if (sign === "\n") endRow();
    else if (sign !== "\r") cell += sign;
  }
  if (cell !== "" || row.length > 0) endRow();
  return rows;
}

/** Detect the separator by extension, else by the first line. */
export function separatorOf(text: string, ending: string): "," | ";" | "\t" {
  if (ending === "tsv") return "\t";
  const line = text.slice(0, text.indexOf("\n") + 1 || 1000);
  const count = (sign: string) => line.split(sign).length;
  const signs = [",", ";", "\t"] as const;
  return signs.reduce((best, sign) => (count(sign) > count(best) ? sign : best));
}
