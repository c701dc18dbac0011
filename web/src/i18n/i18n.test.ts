import { expect, test } from "vitest";
import { en } from "@/i18n/en";
import { DICTIONARIES, preferredLanguage } from "@/i18n/i18n";
import { memoryStringsEn, memoryStringsZh } from "@/i18n/memory";
import { modelStringsEn, modelStringsZh } from "@/i18n/models";
import { toolStringsEn, toolStringsZh } from "@/i18n/tools";

/** Every key with the type of its value; nested keys with their path. */
function shape(value: unknown, path = ""): string[] {
  if (typeof value !== "object" || value === null) return [`${path}: ${typeof value}`];
  return Object.entries(value).flatMap(([key, inner]) => shape(inner, `${path}/${key}`));
}

test.each(Object.entries(DICTIONARIES))("%s has every key and no other", (_, dictionary) => {
  expect(shape(dictionary).sort()).toEqual(shape(en).sort());
});

test.each(Object.entries(DICTIONARIES))("no string of %s is empty", (_, dictionary) => {
  expect(JSON.stringify(dictionary)).not.toContain('""');
});

test("every Chinese string is translated", () => {
  const strings = Object.values(DICTIONARIES.zh).filter((value) => typeof value === "string");
  expect(strings.filter((text) => !/[\u4e00-\u9fff]/.test(text))).toEqual([]);
});

test.each([
  ["memory", memoryStringsEn, memoryStringsZh],
  ["models", modelStringsEn, modelStringsZh],
  ["tools", toolStringsEn, toolStringsZh],
])("the lazily loaded %s strings are complete in both languages", (_, english, chinese) => {
  expect(shape(chinese).sort()).toEqual(shape(english).sort());
  expect(JSON.stringify([english, chinese])).not.toContain('""');
  const strings = Object.values(chinese).filter((value) => typeof value === "string");
  expect(strings.filter((text) => !/[\u4e00-\u9fff]/.test(text))).toEqual([]);
});

test("the first supported language of the browser is used", () => {
  expect(preferredLanguage(["fr-FR", "zh-CN", "en"])).toBe("zh");
  expect(preferredLanguage(["en-GB", "zh"])).toBe("en");
  expect(preferredLanguage(["fr"])).toBe("en");
});
