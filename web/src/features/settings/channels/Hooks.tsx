/** Webhooks of the person: list, form, and the secret when it is new. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { type Hook, hookOf, type NewHook } from "@/api/channels";
import { OneTimeSecret } from "@/features/settings/account/OneTimeSecret";
import { Problem } from "@/features/settings/channels/Problem";
import { useChannelsApi } from "@/features/settings/channels/useChannels";
import { Section } from "@/features/settings/Section";
import { useChannelStrings } from "@/i18n/channels";
import { Button } from "@/ui/Button";
import { Choice, Line, Lines } from "@/ui/fields";
import { Switch } from "@/ui/Switch";

const HOOKS_KEY = ["hooks"];
type ThreadKind = keyof ReturnType<typeof useChannelStrings>["threadKinds"];

export function Hooks() {
  const strings = useChannelStrings();
  const channels = useChannelsApi();
  const hooks = useQuery({ queryKey: HOOKS_KEY, queryFn: channels.hooks, retry: false });
  return (
    <Section title={strings.hooks}>
      <p className="px-4 py-3 text-small text-soft">
        {hooks.data?.length === 0 && `${strings.noHooks} `}
        {strings.hooksHint}
      </p>
      {hooks.data?.map((hook) => (
        <HookRow key={hook.hook_id} hook={hook} />
      ))}
      <CreateHook />
    </Section>
  );
}

function useHookChange<Input, Output>(change: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSettled: () => queries.invalidateQueries({ queryKey: HOOKS_KEY }),
  });
}

function HookRow({ hook }: { hook: Hook }) {
  const strings = useChannelStrings();
  const channels = useChannelsApi();
  const id = hook.hook_id;
  const turn = useHookChange((on: boolean) => channels.switchHook(id, on));
  const renew = useHookChange(() => channels.replaceHookSecret(id));
  const remove = useHookChange(() => channels.removeHook(id));
  return (
    <div className="flex flex-col gap-3 px-4 py-3">
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-60">
          <h3 className="font-medium [overflow-wrap:anywhere]">{hook.name}</h3>
          <p className="font-mono text-small text-faint [overflow-wrap:anywhere]">{addressOf(hook)}</p>
          <p className="text-small text-faint">{strings.threadKinds[hook.settings.thread ?? "each"]}</p>
        </div>
        <div className="flex flex-wrap items-center gap-2">
          <Switch
            label={strings.enable(hook.name)}
            on={hook.is_enabled}
            disabled={turn.isPending}
            onSwitch={(on) => turn.mutate(on)}
          />
          <Button disabled={renew.isPending} onClick={() => renew.mutate(undefined)}>
            {strings.newSecret}
          </Button>
          <Button
            aria-label={strings.removeHook(hook.name)}
            disabled={remove.isPending}
            onClick={() => {
              if (window.confirm(strings.removeHookSure(hook.name))) remove.mutate(undefined);
            }}
          >
            {strings.deleteHook}
          </Button>
        </div>
      </div>
      {renew.data && <Secret made={renew.data} />}
      <Problem error={turn.error ?? renew.error ?? remove.error} />
    </div>
  );
}

function Secret({ made }: { made: NewHook }) {
  const strings = useChannelStrings();
  return (
    <div className="rounded-box bg-tint px-3 py-2">
      <OneTimeSecret hint={strings.secret} text={made.secret} />
    </div>
  );
}

function CreateHook() {
  const strings = useChannelStrings();
  const channels = useChannelsApi();
  const [name, setName] = useState("");
  const [prompt, setPrompt] = useState("");
  const [thread, setThread] = useState<ThreadKind>("each");
  const [key, setKey] = useState("");
  const settings = { prompt, agent: null, thread, key: thread === "key" ? key.trim() : "" };
  const create = useHookChange(() => channels.createHook(name.trim(), settings));
  const isComplete = name.trim() && prompt.trim() && (thread !== "key" || key.trim());
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate(undefined, {
      onSuccess: () => {
        setName("");
        setPrompt("");
        setKey("");
      },
    });
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-4 p-4">
      <Line name={strings.hookName} value={name} onChange={setName} />
      <Lines name={strings.prompt} hint={strings.promptHint} value={prompt} onChange={setPrompt} />
      <Choice<ThreadKind>
        name={strings.threads}
        value={thread}
        options={strings.threadKinds}
        onChoose={setThread}
      />
      {thread === "key" && (
        <Line mono name={strings.key} hint={strings.keyHint} value={key} onChange={setKey} />
      )}
      <Button type="submit" className="self-start" disabled={!isComplete || create.isPending}>
        {strings.createHook}
      </Button>
      {create.data && <Secret made={create.data} />}
      <Problem error={create.error} />
    </form>
  );
}

function addressOf(hook: Hook): string {
  return `${location.origin}${hookOf(hook.hook_id)}`;
}
