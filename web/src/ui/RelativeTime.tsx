/** Relative time below a day, else the date; the exact time on hover. */

import { useLanguage } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import type { Language } from "@/i18n/i18n";

export function RelativeTime({ at }: { at: string }) {
  const language = useLanguage();
  const ms = Date.parse(at) - Date.now();
  return (
    <time dateTime={at} title={formatMoment(at, language)}>
      {Math.abs(ms) < DAY_MS ? formatRelativeTime(ms, language) : formatMoment(at, language)}
    </time>
  );
}

const DAY_MS = 86_400_000;

const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["year", 365 * 86_400],
  ["month", 30 * 86_400],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** Format as "3 days ago" or "now". */
export function formatRelativeTime(ms: number, language: Language): string {
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  const seconds = ms / 1000;
  const [unit, length] = UNITS.find(([, unitSeconds]) => Math.abs(seconds) >= unitSeconds) ?? ["second", 60];
  return format.format(Math.round(seconds / length) || 0, unit);
}
