/** When something was: how long ago, with the exact time on hover. */

import { useLanguage } from "@/app/context";
import type { Language } from "@/i18n/i18n";

export function Moment({ at }: { at: string }) {
  const language = useLanguage();
  return (
    <time dateTime={at} title={exactTime(at, language)}>
      {agoWords(Date.parse(at) - Date.now(), language)}
    </time>
  );
}

export function exactTime(at: string, language: Language): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" }).format(new Date(at));
}

const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["year", 365 * 86_400],
  ["month", 30 * 86_400],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** "3 days ago", "now". */
export function agoWords(ms: number, language: Language): string {
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  const seconds = ms / 1000;
  const [unit, length] = UNITS.find(([, unitSeconds]) => Math.abs(seconds) >= unitSeconds) ?? ["second", 60];
  return format.format(Math.round(seconds / length) || 0, unit);
}
