/** Choices, and what this server is. */

import { useQuery } from "@tanstack/react-query";
import { useActions, useLanguage, usePage, useWords } from "@/app/context";
import { PageFrame } from "@/app/PageFrame";
import type { Theme } from "@/app/preferences";
import { useServer } from "@/app/server";
import { KeyboardHelp } from "@/features/settings/KeyboardHelp";
import { ModelList } from "@/features/settings/ModelList";
import { Fact, Section } from "@/features/settings/Section";
import { Segments } from "@/ui/Segments";
import { WithCode } from "@/ui/WithCode";
import { LANGUAGE_NAMES, type Language, sentence } from "@/words/words";

export function SettingsPage() {
  const words = useWords();
  return (
    <PageFrame title={words.settings}>
      <div className="flex flex-col gap-8">
        <Appearance />
        <ModelList />
        <Commands />
        <KeyboardHelp />
        <About />
      </div>
    </PageFrame>
  );
}

function Appearance() {
  const words = useWords();
  const actions = useActions();
  const language = useLanguage();
  const theme = usePage((page) => page.preferences.theme);
  const themes: Readonly<Record<Theme, string>> = {
    system: words.themeSystem,
    light: words.themeLight,
    dark: words.themeDark,
  };
  return (
    <Section title={words.appearance}>
      <Fact name={words.theme}>
        <Segments
          label={words.theme}
          value={theme}
          options={themes}
          onChoose={(value) => actions.prefer({ theme: value })}
        />
      </Fact>
      <Fact name={words.language}>
        <Segments<Language>
          label={words.language}
          value={language}
          options={LANGUAGE_NAMES}
          onChoose={(value) => actions.prefer({ language: value })}
        />
      </Fact>
    </Section>
  );
}

function Commands() {
  const words = useWords();
  const sandbox = usePage((page) => page.sandbox);
  if (sandbox === null) return null;
  return (
    <Section title={words.commands}>
      <Fact name={words.sandboxTiers[sandbox.tier]}>
        <span className="text-small text-faint [overflow-wrap:anywhere]">
          {sandbox.detail}
          {sandbox.remedy !== null && (
            <>
              {" "}
              <WithCode text={sentence(sandbox.remedy)} />
            </>
          )}
        </span>
      </Fact>
    </Section>
  );
}

function About() {
  const words = useWords();
  const server = useServer();
  const info = useQuery({ queryKey: ["info"], queryFn: server.info, staleTime: Number.POSITIVE_INFINITY });
  return (
    <Section title={words.about}>
      <Fact name={words.version}>
        {info.isError ? (
          <span className="text-error">{words.unknown}</span>
        ) : (
          <span className="font-mono text-small">{info.data?.version ?? "…"}</span>
        )}
      </Fact>
    </Section>
  );
}
