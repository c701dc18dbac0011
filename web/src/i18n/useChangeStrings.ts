/** Strings of file changes in the current language. */

import { changeStrings } from "@/i18n/changes";
import { useLanguage } from "@/i18n/context";

export function useChangeStrings(): (typeof changeStrings)["en"] {
  return changeStrings[useLanguage()];
}
