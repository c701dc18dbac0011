/** Theme and language, and where commands run. */

import { Settings } from "lucide-react";
import { useActions, useLanguage, usePage, useWords } from "@/app/context";
import type { Theme } from "@/app/preferences";
import { Menu, MenuChoice, MenuLine, MenuNote } from "@/ui/Menu";
import { LANGUAGE_NAMES, type Language } from "@/words/words";

export function SettingsMenu() {
  const words = useWords();
  const actions = useActions();
  const theme = usePage((page) => page.preferences.theme);
  const language = useLanguage();
  const sandbox = usePage((page) => page.sandbox);
  return (
    <Menu
      side="top"
      trigger={
        <button
          type="button"
          className="flex h-9 w-full items-center gap-2 rounded-box px-2 text-soft hover:bg-tint hover:text-ink"
        >
          <Settings aria-hidden className="size-4" />
          {words.settings}
        </button>
      }
    >
      <MenuChoice
        label={words.theme}
        value={theme}
        options={[
          { value: "system", name: words.themeSystem },
          { value: "light", name: words.themeLight },
          { value: "dark", name: words.themeDark },
        ]}
        onChoose={(value) => actions.prefer({ theme: value as Theme })}
      />
      <MenuLine />
      <MenuChoice
        label={words.language}
        value={language}
        options={Object.entries(LANGUAGE_NAMES).map(([value, name]) => ({ value, name }))}
        onChoose={(value) => actions.prefer({ language: value as Language })}
      />
      {sandbox !== null && (
        <>
          <MenuLine />
          <MenuNote label={words.commands} text={words.sandboxTiers[sandbox.tier]} note={sandbox.detail} />
        </>
      )}
    </Menu>
  );
}
