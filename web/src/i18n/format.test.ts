import { expect, test } from "vitest";
import {
  formatCost,
  formatCount,
  formatDuration,
  formatPercent,
  formatShortDuration,
  formatSize,
} from "@/i18n/format";

test.each([
  [420, "0.4 s"],
  [1200, "1.2 s"],
  [8000, "8 s"],
  [59_900, "60 s"],
  [125_000, "2 min 5 s"],
])("%i ms is formatted as %s", (ms, formatted) => {
  expect(formatDuration(ms, "en")).toBe(formatted);
});

test("durations are formatted in Chinese too", () => {
  expect(formatDuration(8000, "zh")).toMatch(/^8\s?秒$/);
});

test.each([
  [0, "0 B"],
  [8, "8 B"],
  [1234, "1.23 kB"],
  [23_292, "23.3 kB"],
  [52_428_800, "52.4 MB"],
  [3e15, "3,000,000 GB"],
])("%i bytes are formatted as %s", (bytes, formatted) => {
  expect(formatSize(bytes, "en")).toBe(formatted);
});

test("durations below one second are formatted in milliseconds", () => {
  expect([0.4, 12, 3100].map((ms) => formatShortDuration(ms, "en"))).toEqual(["0 ms", "12 ms", "3.1 s"]);
});

test("percentages have at most one decimal", () => {
  expect([0, 0.96, 0.9942, 1].map((part) => formatPercent(part, "en"))).toEqual([
    "0%",
    "96%",
    "99.4%",
    "100%",
  ]);
});

test.each([
  ["0", "$0.00"],
  ["0.00001", "<$0.0001"],
  ["0.0023", "$0.0023"],
  ["0.0123", "$0.01"],
  ["0.5", "$0.50"],
  ["12.345", "$12.35"],
])("%s dollars are formatted as %s", (amount, formatted) => {
  expect(formatCost({ amount, currency: "USD" }, "en")).toBe(formatted);
});

test("large counts are shortened", () => {
  expect(formatCount(12_340, "en")).toBe("12.3K");
  expect(formatCount(12_340, "zh")).toBe("1.2万");
});
