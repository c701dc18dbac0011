/** Strings of the sandbox in the current language. */

import { useLanguage } from "@/i18n/context";
import { type SandboxStrings, sandboxStrings } from "@/i18n/sandbox";

export function useSandboxStrings(): SandboxStrings {
  return sandboxStrings[useLanguage()];
}
