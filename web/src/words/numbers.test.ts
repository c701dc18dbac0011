import { expect, test } from "vitest";
import { costWords, countWords, shortDuration, sizeWords } from "@/words/numbers";

test.each([
  [0, "0 bytes"],
  [389, "389 bytes"],
  [1400, "1.4 kB"],
  [23_292, "23 kB"],
  [5_000_000, "5 MB"],
  [3e15, "3,000,000 GB"],
])("%i bytes are said as %s", (bytes, said) => {
  expect(sizeWords(bytes, "en")).toBe(said);
});

test("short times are said in thousandths, longer ones in seconds", () => {
  expect([0.4, 12, 3100].map((ms) => shortDuration(ms, "en"))).toEqual(["0 ms", "12 ms", "3.1 s"]);
});

test("large numbers are shortened and small amounts are not lost", () => {
  expect(countWords(12_340, "en")).toBe("12.3K");
  expect(countWords(12_340, "zh")).toBe("1.2万");
  expect(costWords({ amount: "0.0123", currency: "USD" }, "en")).toBe("$0.0123");
  expect(costWords({ amount: "12.345", currency: "EUR" }, "en")).toBe("€12.35");
});
