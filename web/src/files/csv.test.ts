import { expect, test } from "vitest";
import { parseTable, separatorOf } from "@/files/csv";

test.each([
  [
    "a,b\n1,2\n",
    [
      ["a", "b"],
      ["1", "2"],
    ],
  ],
  [
    "a,b\r\n1,2",
    [
      ["a", "b"],
      ["1", "2"],
    ],
  ],
  ['"a, ""x""","line\nbreak"', [['a, "x"', "line\nbreak"]]],
  [
    "\ufeffa,\n,b",
    [
      ["a", ""],
      ["", "b"],
    ],
  ],
  ['"open', [["open"]]],
  ["", []],
])("%j is a table", (text, rows) => {
  expect(parseTable(text, ",")).toEqual(rows);
});

test("the separator is the most frequent one of the first line", () => {
  expect(separatorOf("a;b;c,d\n1,2,3,4,5", "csv")).toBe(";");
  expect(separatorOf("a,b", "tsv")).toBe("\t");
  expect(separatorOf("one", "csv")).toBe(",");
});

test("a large table takes linear time", () => {
  const text = `${"x,".repeat(20)}x\n`.repeat(20_000);
  expect(parseTable(text, ",")).toHaveLength(20_000);
});
