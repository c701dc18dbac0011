/** Numbers with their units. */

import { durationWords, type Language } from "@/words/words";

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;

/** "389 byte", "23 kB", "1.4 MB". */
export function sizeWords(bytes: number, language: Language): string {
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1);
  const value = bytes / 1000 ** power;
  return new Intl.NumberFormat(language, {
    style: "unit",
    unit: UNITS[power] ?? "byte",
    unitDisplay: power === 0 ? "long" : "short",
    maximumFractionDigits: value < 10 && power > 0 ? 1 : 0,
  }).format(value);
}

/** "12 ms", "3.1 s": also what takes next to no time takes some. */
export function shortDuration(ms: number, language: Language): string {
  if (ms >= 1000) return durationWords(ms, language);
  return new Intl.NumberFormat(language, { style: "unit", unit: "millisecond", unitDisplay: "short" }).format(
    Math.round(ms),
  );
}

/** "950", "12.3K". */
export function countWords(count: number, language: Language): string {
  return new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

/** "$0.012": as many digits as a small amount needs. */
export function costWords(
  { amount, currency }: { amount: string; currency: string },
  language: Language,
): string {
  return new Intl.NumberFormat(language, {
    style: "currency",
    currency,
    minimumFractionDigits: 2,
    maximumFractionDigits: Number(amount) < 1 ? 4 : 2,
  }).format(Number(amount));
}
