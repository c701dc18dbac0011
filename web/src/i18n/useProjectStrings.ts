/** Strings of projects in the current language. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";
import { projectStringsEn, projectStringsZh } from "@/i18n/projects";

const STRINGS: Readonly<Record<Language, typeof projectStringsEn>> = {
  en: projectStringsEn,
  zh: projectStringsZh,
};

export function useProjectStrings(): typeof projectStringsEn {
  return STRINGS[useLanguage()];
}
