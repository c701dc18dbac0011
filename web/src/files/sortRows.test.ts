import { expect, test } from "vitest";
import { letters, numberIn, sortRows, splitHead } from "@/files/sortRows";

test.each([
  ["1,234.50", 1234.5],
  ["€12.00", 12],
  ["-3", -3],
  ["-$3.50", -3.5],
  ["12%", 12],
  ["1e3", 1000],
  ["2026-01-02", null],
  ["item 3", null],
  ["", null],
])("%s is the number %s", (cell, number) => {
  expect(numberIn(cell)).toBe(number);
});

test("rows are sorted by numbers and texts, with empty cells last", () => {
  const rows = [["b"], ["10"], [""], ["9"], ["a"]];
  const sorted = (order: "ascending" | "descending") => sortRows(rows, { column: 0, order }).flat();
  expect(sorted("ascending")).toEqual(["9", "10", "a", "b", ""]);
  expect(sorted("descending")).toEqual(["b", "a", "10", "9", ""]);
  expect(sortRows(rows, null)).toBe(rows);
});

test("a first row of texts is the heading, otherwise columns have letters", () => {
  expect(
    splitHead([
      ["Name", "Age"],
      ["Ada", "36"],
    ]).head,
  ).toEqual(["Name", "Age"]);
  expect(
    splitHead([
      ["1", "2"],
      ["3", "4"],
    ]),
  ).toEqual({
    head: ["A", "B"],
    rows: [
      ["1", "2"],
      ["3", "4"],
    ],
  });
  expect(splitHead([]).head).toEqual([]);
  expect([letters(25), letters(26), letters(701)]).toEqual(["Z", "AA", "ZZ"]);
});
