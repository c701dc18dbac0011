/** Dates, durations, sizes, counts and amounts with their units. */

import type { Language } from "@/i18n/i18n";

const SIZE_UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;

/** Shorter durations are not worth showing. */
export const SHOWN_FROM_MS = 1000;

const LEAST_COST = 0.0001;

/** Format as "0.4 s", "8 s" or "2 min 5 s". */
export function formatDuration(ms: number, language: Language): string {
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

/** Format as "12 ms" below one second, else like `formatDuration`. */
export function formatShortDuration(ms: number, language: Language): string {
  if (ms >= 1000) return formatDuration(ms, language);
  return new Intl.NumberFormat(language, { style: "unit", unit: "millisecond", unitDisplay: "short" }).format(
    Math.round(ms),
  );
}

/** Format as "812 B", "1.23 kB" or "50 MB", with at most three significant digits. */
export function formatSize(bytes: number, language: Language): string {
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), SIZE_UNITS.length - 1);
  const style = { style: "unit", unit: SIZE_UNITS[power] ?? "byte", unitDisplay: "short" } as const;
  const format = new Intl.NumberFormat(language, { ...style, maximumSignificantDigits: 3 });
  return format.format(bytes / 1000 ** power).replace("byte", "B");
}

/** Format as "950" or "12.3K". */
export function formatCount(count: number, language: Language): string {
  return new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

/** Format as "96%" or "99.4%". */
export function formatPercent(fraction: number, language: Language): string {
  return new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 }).format(fraction);
}

/** Format as "$12.35"; amounts below one cent as "$0.0023". */
export function formatCost(
  { amount, currency }: { amount: string; currency: string },
  language: Language,
): string {
  const value = Number(amount);
  const digits = value > 0 && value < 0.01 ? 4 : 2;
  const format = new Intl.NumberFormat(language, {
    style: "currency",
    currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  return value > 0 && value < LEAST_COST ? `<${format.format(LEAST_COST)}` : format.format(value);
}

/** Format as "Nov 16, 07:23"; another year is named. */
export function formatMoment(at: string | number | Date, language: Language): string {
  const moment = new Date(at);
  const isThisYear = moment.getFullYear() === new Date().getFullYear();
  return new Intl.DateTimeFormat(language, {
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    ...(!isThisYear && { year: "numeric" }),
  }).format(moment);
}
