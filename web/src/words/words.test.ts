import { expect, test } from "vitest";
import { en } from "@/words/en";
import { memoryWordsEn, memoryWordsZh } from "@/words/memory";
import { toolWordsEn, toolWordsZh } from "@/words/tools";
import { DICTIONARIES, durationWords, preferredLanguage, sizeWords } from "@/words/words";

/** Every key with the kind of its value, nested ones with their path. */
function shape(value: unknown, path = ""): string[] {
  if (typeof value !== "object" || value === null) return [`${path}: ${typeof value}`];
  return Object.entries(value).flatMap(([key, inner]) => shape(inner, `${path}/${key}`));
}

test.each(Object.entries(DICTIONARIES))("%s has every word and no other", (_, dictionary) => {
  expect(shape(dictionary).sort()).toEqual(shape(en).sort());
});

test.each(Object.entries(DICTIONARIES))("no word of %s is empty", (_, dictionary) => {
  expect(JSON.stringify(dictionary)).not.toContain('""');
});

test("the two languages share no sentence", () => {
  const sentences = Object.values(DICTIONARIES.zh).filter((word) => typeof word === "string");
  expect(sentences.filter((word) => !/[\u4e00-\u9fff]/.test(word))).toEqual([]);
});

test.each([
  ["memory", memoryWordsEn, memoryWordsZh],
  ["tools", toolWordsEn, toolWordsZh],
])("the words of %s, loaded later, are complete in both languages", (_, english, chinese) => {
  expect(shape(chinese).sort()).toEqual(shape(english).sort());
  expect(JSON.stringify([english, chinese])).not.toContain('""');
  const sentences = Object.values(chinese).filter((word) => typeof word === "string");
  expect(sentences.filter((word) => !/[\u4e00-\u9fff]/.test(word))).toEqual([]);
});

test("the reader's first language that is spoken here is taken", () => {
  expect(preferredLanguage(["fr-FR", "zh-CN", "en"])).toBe("zh");
  expect(preferredLanguage(["en-GB", "zh"])).toBe("en");
  expect(preferredLanguage(["fr"])).toBe("en");
});

test.each([
  [420, "0.4 s"],
  [1200, "1.2 s"],
  [8000, "8 s"],
  [59_900, "60 s"],
  [125_000, "2 min 5 s"],
])("%i ms is said as %s", (ms, said) => {
  expect(durationWords(ms, "en")).toBe(said);
});

test("durations are said in Chinese too", () => {
  expect(durationWords(8000, "zh")).toMatch(/^8\s?秒$/);
});

test.each([
  [8, "8 B"],
  [1234, "1.23 kB"],
  [52_428_800, "52.4 MB"],
])("%i bytes are said as %s", (bytes, said) => {
  expect(sizeWords(bytes, "en")).toBe(said);
});
