/** The page's languages. */

import { en } from "@/words/en";
import { zh } from "@/words/zh";

export type Words = typeof en;
export type Language = "en" | "zh";

export const DICTIONARIES: Readonly<Record<Language, Words>> = { en, zh };

export const LANGUAGE_NAMES: Readonly<Record<Language, string>> = { en: "English", zh: "中文" };

/** The first language of the reader that the page speaks. */
export function preferredLanguage(languages: readonly string[]): Language {
  const spoken = languages.map((tag) => tag.toLowerCase().split("-")[0]);
  return spoken.find((tag): tag is Language => tag === "en" || tag === "zh") ?? "en";
}

/** Server messages are written without capital and full stop. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === "") return "";
  const capital = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?。！？]$/.test(capital) ? capital : `${capital}.`;
}

/** "0.4 s", "8 s", "2 min 5 s": short, with units. */
export function durationWords(ms: number, language: Language): string {
  const unit = (value: number, name: "second" | "minute", digits = 0) =>
    new Intl.NumberFormat(language, {
      style: "unit",
      unit: name,
      unitDisplay: "short",
      maximumFractionDigits: digits,
    })
      .format(value)
      .replace("sec", "s");
  const seconds = ms / 1000;
  if (seconds < 10) return unit(seconds, "second", 1);
  if (seconds < 60) return unit(Math.round(seconds), "second");
  const whole = Math.round(seconds);
  return `${unit(Math.floor(whole / 60), "minute")} ${unit(whole % 60, "second")}`;
}

/** "812 B", "1.2 kB", "50 MB": three digits at most. */
export function sizeWords(bytes: number, language: Language): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  const style = { style: "unit", unit: units[power] ?? "byte", unitDisplay: "short" } as const;
  return new Intl.NumberFormat(language, { ...style, maximumSignificantDigits: 3 }).format(
    bytes / 1000 ** power,
  );
}
