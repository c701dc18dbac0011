/** React context with the language of the page. */

import { createContext, type ReactNode, use, useEffect, useState } from "react";
import { en } from "@/i18n/en";
import { findStrings, type Language, loadLanguage, type Strings } from "@/i18n/i18n";

const LanguageContext = createContext<Language>("en");

/** Until the strings of a language are loaded, the page keeps the language it has. */
export function LanguageProvider({ language, children }: { language: Language; children: ReactNode }) {
  const [latest, setLatest] = useState<Language>("en");
  useEffect(() => {
    let wanted = true;
    loadLanguage(language).then(
      () => wanted && setLatest(language),
      () => undefined, // the server is away; the next change tries again
    );
    return () => {
      wanted = false;
    };
  }, [language]);
  const shown = findStrings(language) === undefined ? latest : language;
  return <LanguageContext value={shown}>{children}</LanguageContext>;
}

export function useLanguage(): Language {
  return use(LanguageContext);
}

export function useStrings(): Strings {
  return findStrings(useLanguage()) ?? en;
}
