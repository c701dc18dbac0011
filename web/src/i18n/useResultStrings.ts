/** Strings of previews in the current language. */

import { useLanguage } from "@/i18n/context";
import { previewStrings } from "@/i18n/results";

export function usePreviewStrings(): (typeof previewStrings)["en"] {
  return previewStrings[useLanguage()];
}
