/** React context with the language of the page. */

import { createContext, type ReactNode, use } from "react";
import { DICTIONARIES, type Language, type Strings } from "@/i18n/i18n";

const LanguageContext = createContext<Language>("en");

export function LanguageProvider({ language, children }: { language: Language; children: ReactNode }) {
  return <LanguageContext value={language}>{children}</LanguageContext>;
}

export function useLanguage(): Language {
  return use(LanguageContext);
}

export function useStrings(): Strings {
  return DICTIONARIES[useLanguage()];
}
