/** Form that connects a chat app: its settings are checked before they are saved. */

import { type FormEvent, useState } from "react";
import type { AppSettings, ChatApp } from "@/api/channels";
import { Problem } from "@/features/settings/channels/Problem";
import { useChannelChange, useChannelsApi } from "@/features/settings/channels/useChannels";
import { Section } from "@/features/settings/Section";
import { useChannelStrings } from "@/i18n/channels";
import { sentence } from "@/i18n/i18n";
import { Button } from "@/ui/Button";
import { Choice, Field, INPUT } from "@/ui/fields";

const NOTHING: AppSettings = {};

export function ConnectForm({ apps }: { apps: readonly ChatApp[] }) {
  const strings = useChannelStrings();
  const [name, setName] = useState(apps[0]?.name ?? "");
  const app = apps.find((each) => each.name === name);
  if (app === undefined) return null;
  return (
    <Section title={strings.connect}>
      <div className="flex flex-col gap-4 p-4">
        <Choice
          name={strings.app}
          value={name}
          options={Object.fromEntries(apps.map((each) => [each.name, each.title]))}
          onChoose={setName}
        />
        {app.is_configured ? (
          <p className="text-small text-soft">{strings.configured(app.title)}</p>
        ) : (
          <Settings key={app.name} app={app} />
        )}
      </div>
    </Section>
  );
}

function Settings({ app }: { app: ChatApp }) {
  const strings = useChannelStrings();
  const channels = useChannelsApi();
  const [settings, setSettings] = useState(NOTHING);
  const check = useChannelChange(() => channels.check(app.name, settings));
  const save = useChannelChange(() => channels.save(app.name, settings));
  const isComplete = app.fields.every((field) => !field.is_required || settings[field.name]?.trim());
  const isBusy = check.isPending || save.isPending;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    check.reset();
    save.mutate(undefined, { onSuccess: () => setSettings(NOTHING) });
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-4">
      {app.fields.map((field) => (
        <Field
          key={field.name}
          name={labelOf(field.name)}
          hint={
            field.is_required
              ? `${field.description} ${strings.secretHint}`
              : `${strings.optional} ${field.description}`
          }
        >
          {(ids) => (
            <input
              {...ids}
              type={field.is_required ? "password" : "text"}
              autoComplete="off"
              spellCheck={false}
              value={settings[field.name] ?? ""}
              onChange={(event) => setSettings({ ...settings, [field.name]: event.target.value })}
              className={`${INPUT} w-full font-mono text-small`}
            />
          )}
        </Field>
      ))}
      <div className="flex flex-wrap gap-2">
        <Button primary type="submit" disabled={!isComplete || isBusy}>
          {strings.save}
        </Button>
        <Button
          disabled={!isComplete || isBusy}
          onClick={() => {
            save.reset();
            check.mutate(undefined);
          }}
        >
          {strings.check}
        </Button>
      </div>
      <p role="status" className="text-small text-soft empty:hidden">
        {isBusy ? strings.checking : check.data ? strings.works(check.data.bot) : null}
      </p>
      <Problem error={save.error ?? check.error} />
    </form>
  );
}

/** Label of a setting: "Bot token" for `bot_token`. */
function labelOf(name: string): string {
  return sentence(name.replaceAll("_", " ")).replace(/\.$/, "");
}
