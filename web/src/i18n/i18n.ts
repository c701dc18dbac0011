/** Supported languages and their dictionaries. */

import { en } from "@/i18n/en";
import { zh } from "@/i18n/zh";

export type Strings = typeof en;
export type Language = "en" | "zh";

export const DICTIONARIES: Readonly<Record<Language, Strings>> = { en, zh };

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
