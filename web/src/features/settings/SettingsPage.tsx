/** Settings page. */

import { useQuery } from "@tanstack/react-query";
import { KeyboardHelp } from "@/features/settings/KeyboardHelp";
import { ModelList } from "@/features/settings/ModelList";
import { Connections } from "@/features/settings/models/Connections";
import { Fact, Section } from "@/features/settings/Section";
import { useLanguage, useStrings } from "@/i18n/context";
import { LANGUAGE_NAMES, type Language, sentence } from "@/i18n/i18n";
import { PageFrame } from "@/layout/PageFrame";
import { useActions, usePage } from "@/state/context";
import type { Theme } from "@/state/preferences";
import { useSandbox } from "@/state/sandbox";
import { useServer } from "@/state/server";
import { InlineCode } from "@/ui/InlineCode";
import { Segments } from "@/ui/Segments";

export function SettingsPage() {
  const strings = useStrings();
  return (
    <PageFrame title={strings.settings}>
      <div className="flex flex-col gap-8">
        <Appearance />
        <ModelList />
        <Connections />
        <Commands />
        <KeyboardHelp />
        <About />
      </div>
    </PageFrame>
  );
}

function Appearance() {
  const strings = useStrings();
  const actions = useActions();
  const language = useLanguage();
  const theme = usePage((page) => page.preferences.theme);
  const themes: Readonly<Record<Theme, string>> = {
    system: strings.themeSystem,
    light: strings.themeLight,
    dark: strings.themeDark,
  };
  return (
    <Section title={strings.appearance}>
      <Fact name={strings.theme}>
        <Segments
          label={strings.theme}
          value={theme}
          options={themes}
          onChoose={(value) => actions.prefer({ theme: value })}
        />
      </Fact>
      <Fact name={strings.language}>
        <Segments<Language>
          label={strings.language}
          value={language}
          options={LANGUAGE_NAMES}
          onChoose={(value) => actions.prefer({ language: value })}
        />
      </Fact>
    </Section>
  );
}

function Commands() {
  const strings = useStrings();
  const sandbox = useSandbox();
  if (sandbox === null) return null;
  return (
    <Section title={strings.commands}>
      <Fact name={strings.sandboxTiers[sandbox.tier]}>
        <span className="text-small text-faint [overflow-wrap:anywhere]">
          {sandbox.detail}
          {sandbox.remedy !== null && (
            <>
              {" "}
              <InlineCode text={sentence(sandbox.remedy)} />
            </>
          )}
        </span>
      </Fact>
    </Section>
  );
}

function About() {
  const strings = useStrings();
  const server = useServer();
  const info = useQuery({ queryKey: ["info"], queryFn: server.info, staleTime: Number.POSITIVE_INFINITY });
  return (
    <Section title={strings.about}>
      <Fact name={strings.version}>
        {info.isError ? (
          <span className="text-error">{strings.unknown}</span>
        ) : (
          <span className="font-mono text-small">{info.data?.version ?? "…"}</span>
        )}
      </Fact>
    </Section>
  );
}
