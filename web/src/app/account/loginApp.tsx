/** Entry point of the pages without a login: login, first account, invitation and new password. */

import type { ReactNode } from "react";
import { accountsApi } from "@/api/accounts";
import type { Fetch } from "@/api/http";
import { LoginPage } from "@/app/account/LoginPage";
import { LanguageProvider } from "@/i18n/context";
import { preferredLanguage } from "@/i18n/i18n";
import type { Preferences } from "@/state/preferences";

export function loginPage(ask: Fetch, preferences: Preferences): ReactNode {
  const { theme, language } = preferences;
  if (theme !== "system") document.documentElement.dataset.theme = theme;
  const shown = language ?? preferredLanguage(navigator.languages);
  document.documentElement.lang = shown;
  return (
    <LanguageProvider language={shown}>
      <LoginPage accounts={accountsApi(ask)} />
    </LanguageProvider>
  );
}
