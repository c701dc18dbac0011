import { expect, test } from "vitest";
import { en } from "@/i18n/en";
import { findStrings, loadLanguage, preferredLanguage } from "@/i18n/i18n";
import { SKILL_TEXTS_EN, SKILL_TEXTS_ZH } from "@/i18n/skillTexts";
import { zh } from "@/i18n/zh";

const DICTIONARIES = { en, zh };

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

/** Dictionaries of the lazily loaded parts: exports in both languages of every file of this folder. */
function partDictionaries(): [string, object, object][] {
  const files = import.meta.glob<Record<string, unknown>>("./*.ts", { eager: true });
  return Object.entries(files).flatMap(([file, exported]) =>
    Object.entries(exported).flatMap(([name, value]): [string, object, object][] => {
      if (name.endsWith("En")) {
        const chinese = exported[`${name.slice(0, -2)}Zh`];
        return [[`${file} ${name}`, value as object, (chinese ?? {}) as object]];
      }
      const { en: english, zh: chinese } = (value ?? {}) as { en?: unknown; zh?: unknown };
      const isPair = typeof english === "object" && typeof chinese === "object";
      return isPair ? [[`${file} ${name}`, english as object, chinese as object]] : [];
    }),
  );
}

test("every file of strings is checked", () => {
  const files = Object.keys(import.meta.glob("./*.ts")).map((file) => file.slice(2, -3));
  const checked = new Set(partDictionaries().map(([name]) => name.split(".ts")[0]?.slice(2)));
  const rest = files.filter((file) => !checked.has(file) && !/^use|test$/.test(file));
  expect(rest).toEqual(["en", "format", "i18n", "skillTexts", "zh"]);
});

test.each(partDictionaries())("%s is complete in both languages", (_, english, chinese) => {
  expect(shape(chinese).sort()).toEqual(shape(english).sort());
  expect(JSON.stringify([english, chinese])).not.toContain('""');
  expect(untranslated(chinese)).toEqual([]);
});

test("Chinese strings write Token with a capital letter", () => {
  const sources = import.meta.glob<string>("./*.ts", { eager: true, query: "?raw", import: "default" });
  const found = Object.values(sources).flatMap(
    (text) => text.match(/[\u4e00-\u9fff]\s?token\b.*|["`]token .*[\u4e00-\u9fff].*/g) ?? [],
  );
  expect(found).toEqual([]);
});

/** Strings at any depth without a Chinese character. */
function untranslated(value: unknown): string[] {
  if (typeof value === "string") return /[\u4e00-\u9fff]/.test(value) ? [] : [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(untranslated) : [];
}

test("the first supported language of the browser is used", () => {
  expect(preferredLanguage(["fr-FR", "zh-CN", "en"])).toBe("zh");
  expect(preferredLanguage(["en-GB", "zh"])).toBe("en");
  expect(preferredLanguage(["fr"])).toBe("en");
});

test("names and descriptions of built-in skills are Chinese", () => {
  expect(Object.keys(SKILL_TEXTS_ZH)).toEqual(Object.keys(SKILL_TEXTS_EN));
  const texts = Object.values(SKILL_TEXTS_ZH).flat();
  expect(texts.filter((text) => !/[\u4e00-\u9fff]/.test(text))).toEqual([]);
});

test("Chinese is loaded when it is used", async () => {
  await loadLanguage("zh");
  expect(findStrings("zh")).toBe(zh);
  expect(findStrings("en")).toBe(en);
});
