/** Settings page. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { AccountSection } from "@/features/settings/account/AccountSection";
import { KeyboardHelp } from "@/features/settings/KeyboardHelp";
import { ModelList } from "@/features/settings/ModelList";
import { Connections } from "@/features/settings/models/Connections";
import { Embeddings } from "@/features/settings/models/Embeddings";
import { Notifications } from "@/features/settings/Notifications";
import { Fact, Section } from "@/features/settings/Section";
import { useChannelStrings } from "@/i18n/channels";
import { useLanguage, useStrings } from "@/i18n/context";
import { LANGUAGE_NAMES, type Language } from "@/i18n/i18n";
import { useChangeStrings } from "@/i18n/useChangeStrings";
import { useSandboxStrings } from "@/i18n/useSandboxStrings";
import { PageFrame } from "@/layout/PageFrame";
import { Details, Reason } from "@/layout/SandboxStatus";
import { useActions, usePage } from "@/state/context";
import type { Theme } from "@/state/preferences";
import { useSandbox } from "@/state/sandbox";
import { useServer } from "@/state/server";
import { buttonLook } from "@/ui/Button";
import { Segments } from "@/ui/Segments";
import { Switch } from "@/ui/Switch";

export function SettingsPage() {
  const strings = useStrings();
  return (
    <PageFrame title={strings.settings}>
      <div className="flex flex-col gap-8">
        <Appearance />
        <AccountSection />
        <Notifications />
        <ChatApps />
        <ModelList />
        <Connections />
        <Embeddings />
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
  const results = useChangeStrings();
  const theme = usePage((page) => page.preferences.theme);
  const autoOpenPanel = usePage((page) => page.preferences.autoOpenPanel);
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
      <Fact name={results.autoOpenPanel}>
        <Switch
          label={results.autoOpenPanel}
          on={autoOpenPanel}
          onSwitch={(on) => actions.prefer({ autoOpenPanel: on })}
        />
      </Fact>
    </Section>
  );
}

function ChatApps() {
  const strings = useChannelStrings();
  return (
    <Section title={strings.title}>
      <Fact name={strings.hint}>
        <Link to="/channels" className={buttonLook()}>
          {strings.open}
        </Link>
      </Fact>
    </Section>
  );
}

function Commands() {
  const strings = useStrings();
  const words = useSandboxStrings();
  const sandbox = useSandbox();
  if (sandbox === null) return null;
  return (
    <Section title={strings.commands}>
      <Fact name={words.tiers[sandbox.tier]}>
        <div className="text-small text-faint [overflow-wrap:anywhere]">
          <p>
            {sandbox.tier !== "none" && words.networks[sandbox.network]} <Reason sandbox={sandbox} />
          </p>
          <Details sandbox={sandbox} />
        </div>
      </Fact>
      {sandbox.toolbox !== null && (
        <Fact name={words.packages}>
          <span className="text-small text-faint">
            {sandbox.toolbox.status === "building"
              ? words.toolboxProgress(sandbox.toolbox.installed, sandbox.toolbox.total)
              : words.toolbox[sandbox.toolbox.status]}
          </span>
        </Fact>
      )}
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
