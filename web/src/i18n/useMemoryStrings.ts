/** Strings of the memory page in the current language. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";
import { memoryStringsEn, memoryStringsZh } from "@/i18n/memory";

const STRINGS: Readonly<Record<Language, typeof memoryStringsEn>> = {
  en: memoryStringsEn,
  zh: memoryStringsZh,
};

export function useMemoryStrings(): typeof memoryStringsEn {
  return STRINGS[useLanguage()];
}
