/** Supported languages and their dictionaries. English is part of the page; others are loaded when they are used. */

import { en } from "@/i18n/en";

export type Strings = typeof en;
export type Language = "en" | "zh";

const loaded: Partial<Record<Language, Strings>> = { en };

/** Return the strings of a language, undefined before `loadLanguage` has loaded them. */
export function findStrings(language: Language): Strings | undefined {
  return loaded[language];
}

/** Load the strings of a language. */
export async function loadLanguage(language: Language): Promise<void> {
  if (language === "zh") loaded.zh ??= (await import("@/i18n/zh")).zh;
}

export const LANGUAGE_NAMES: Readonly<Record<Language, string>> = { en: "English", zh: "中文" };

/** Return the first supported language of `navigator.languages`, English if there is none. */
export function preferredLanguage(languages: readonly string[]): Language {
  const tags = languages.map((tag) => tag.toLowerCase().split("-")[0]);
  return tags.find((tag): tag is Language => tag === "en" || tag === "zh") ?? "en";
}

/** Capitalize a server message and end it with a full stop. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === "") return "";
  const capitalized = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?。！？]$/.test(capitalized) ? capitalized : `${capitalized}.`;
}
