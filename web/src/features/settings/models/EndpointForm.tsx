/** Second step: key and address, the result of the check, and the models to save. */

import { useMutation } from "@tanstack/react-query";
import { ArrowLeft, ExternalLink } from "lucide-react";
import { useEffect, useEffectEvent, useState } from "react";
import type { ChosenModel, Endpoint, ModelCheck } from "@/api/models";
import { CheckResult } from "@/features/settings/models/CheckResult";
import type { Choice } from "@/features/settings/models/ConnectDialog";
import { ModelTicks } from "@/features/settings/models/ModelTicks";
import { useConnectionChange, useModelStrings } from "@/features/settings/models/useConnections";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useActions } from "@/state/context";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";
import { Field, INPUT } from "@/ui/fields";

interface Props {
  readonly choice: Choice;
  /** Null: there is no earlier step. */
  readonly onBack: (() => void) | null;
  readonly onClose: () => void;
}

const NOTHING: ReadonlySet<string> = new Set();

export function EndpointForm({ choice, onBack, onClose }: Props) {
  const strings = useModelStrings();
  const server = useServer();
  const { provider } = choice;
  const [key, setKey] = useState(choice.key);
  const [address, setAddress] = useState(choice.address);
  const [entered, setEntered] = useState(choice.address);
  const [ticked, setTicked] = useState<ReadonlySet<string>>(NOTHING);
  const [named, setNamed] = useState<readonly string[]>([]);
  const [tests, setTests] = useState<Readonly<Record<string, ModelCheck["observed"]>>>({});
  const endpoint: Endpoint = {
    provider: provider.id,
    base_url: address.trim() || null,
    key: key.trim() || null,
  };
  // A key that works needs no more room.
  const [isEditing, setEditing] = useState(true);
  const checking = useMutation({
    networkMode: "always",
    mutationFn: (model: string | null) => {
      setEntered(address.trim());
      return server.checkModels(endpoint, model);
    },
    onSuccess: (check, model) => {
      setAddress(check.base_url);
      setEditing(!check.works);
      if (check.tested === null) return;
      const tested = check.tested;
      setTests((before) => ({ ...before, [tested]: check.observed }));
      if (check.works || model !== null) setTicked((before) => new Set([...before, tested]));
    },
  });
  const check = checking.data ?? null;
  const start = useEffectEvent(() => {
    if (choice.isComplete) checking.mutate(null);
  });
  useEffect(() => start(), []);
  return (
    <>
      <div className="flex flex-col gap-4 overflow-y-auto p-4">
        <div className="flex items-center gap-2">
          {onBack && (
            <Button onClick={onBack} className="inline-flex items-center gap-1">
              <ArrowLeft aria-hidden className="size-4" />
              {strings.back}
            </Button>
          )}
          <h3 className="min-w-0 truncate text-title font-semibold">{provider.title}</h3>
        </div>
        {isEditing ? (
          <form
            className="flex flex-col gap-4"
            onSubmit={(event) => {
              event.preventDefault();
              checking.mutate(null);
            }}
          >
            <Address choice={choice} address={address} onChange={setAddress} />
            <Key choice={choice} value={key} onChange={setKey} />
            <Button
              type="submit"
              className="self-start"
              primary={check === null || !check.works}
              disabled={checking.isPending || (address.trim() === "" && provider.base_url === null)}
            >
              {check === null ? strings.check : strings.checkAgain}
            </Button>
          </form>
        ) : (
          <Button className="self-start" onClick={() => setEditing(true)}>
            {strings.change}
          </Button>
        )}
        <p role="status" className="text-soft empty:hidden">
          {checking.isPending && <span className="animate-breathe">{strings.checking}</span>}
        </p>
        {checking.isError && (
          <p role="alert" className="rounded-box bg-error-tint px-3 py-2 text-error">
            {strings.notChecked} {sentence(checking.error.message)}
          </p>
        )}
        {check !== null && <CheckResult check={check} entered={entered} />}
        {check !== null && (
          <ModelTicks
            models={check.models}
            named={named}
            ticked={ticked}
            onTick={(model, on) =>
              setTicked(
                (before) => new Set([...before].filter((each) => each !== model).concat(on ? model : [])),
              )
            }
            onName={(model) => {
              setNamed((before) => [...new Set([...before, model])]);
              checking.mutate(model);
            }}
          />
        )}
      </div>
      {check !== null && (
        <SaveBar
          endpoint={endpoint}
          works={check.works}
          models={[...ticked].map((model) => ({ model, observed: tests[model] ?? UNTESTED }))}
          onClose={onClose}
        />
      )}
    </>
  );
}

const UNTESTED: ModelCheck["observed"] = {
  answer: null,
  streaming: null,
  tools: null,
  usage: null,
  reasoning: null,
};

interface AddressProps {
  readonly choice: Choice;
  readonly address: string;
  readonly onChange: (address: string) => void;
}

/** Address: required where the provider has none, else behind a disclosure. */
function Address({ choice, address, onChange }: AddressProps) {
  const strings = useModelStrings();
  const isRequired = choice.provider.base_url === null;
  const field = (
    <Field name={strings.address} hint={isRequired ? strings.addressHint : undefined}>
      {(ids) => (
        <input
          ref={isRequired && choice.address === "" ? focusOnMount : undefined}
          {...ids}
          value={address}
          inputMode="url"
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => onChange(event.target.value)}
          className={`${INPUT} font-mono text-small`}
        />
      )}
    </Field>
  );
  if (isRequired) return field;
  return (
    <details className="order-last">
      <summary className="cursor-pointer text-small text-soft">{strings.changeAddress}</summary>
      <div className="mt-2">{field}</div>
    </details>
  );
}

function Key({
  choice,
  value,
  onChange,
}: {
  choice: Choice;
  value: string;
  onChange: (key: string) => void;
}) {
  const strings = useModelStrings();
  const { provider, hasSavedKey } = choice;
  const isOptional = provider.base_url === null;
  return (
    <div className="flex flex-col gap-1">
      <Field
        name={isOptional ? strings.keyOptional : strings.key}
        hint={hasSavedKey ? strings.keySaved : strings.keyHint}
      >
        {(ids) => (
          <input
            ref={isOptional ? undefined : focusOnMount}
            {...ids}
            type="password"
            autoComplete="off"
            value={value}
            onChange={(event) => onChange(event.target.value)}
            className={`${INPUT} font-mono`}
          />
        )}
      </Field>
      {provider.key_url !== null && (
        <a
          href={provider.key_url}
          target="_blank"
          rel="noreferrer"
          className="inline-flex items-center gap-1 self-start text-small text-accent underline underline-offset-2"
        >
          {strings.getKey}
          <ExternalLink aria-hidden className="size-3.5" />
        </a>
      )}
    </div>
  );
}

interface SaveProps {
  readonly endpoint: Endpoint;
  readonly works: boolean;
  readonly models: readonly ChosenModel[];
  readonly onClose: () => void;
}

/** Saves the models; the first of them is used from the next message on. */
function SaveBar({ endpoint, works, models, onClose }: SaveProps) {
  const page = useStrings();
  const strings = useModelStrings();
  const server = useServer();
  const actions = useActions();
  const saving = useConnectionChange(() => server.saveModels(endpoint, models));
  const names = new Set(models.map(({ model }) => model));
  const save = async () => {
    const saved = await saving.mutateAsync(undefined).catch(() => null);
    if (saved === null) return;
    const chosen = saved.models.filter(({ model }) => names.has(model));
    const first = chosen.find(({ is_shadowed }) => !is_shadowed) ?? chosen[0];
    if (first !== undefined) actions.prefer({ model: first.name });
    if (!chosen.some(({ is_shadowed }) => is_shadowed)) onClose();
  };
  const shadowed = (saving.data?.models ?? []).filter(
    ({ is_shadowed, model }) => is_shadowed && names.has(model),
  );
  return (
    <div className="flex shrink-0 flex-col gap-2 border-t border-line p-4">
      {saving.isError && (
        <p role="alert" className="text-small text-error">
          {strings.notSaved} {sentence(saving.error.message)}
        </p>
      )}
      {shadowed.map(({ name }) => (
        <p key={name} role="alert" className="text-small text-warning">
          {strings.shadowed(name)}
        </p>
      ))}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>{saving.isSuccess ? page.close : page.cancel}</Button>
        {!saving.isSuccess && (
          <Button
            // Mounted anew when the model works, so that it gets the focus.
            key={String(works)}
            ref={works ? focusOnMount : undefined}
            primary={works}
            disabled={saving.isPending || models.length === 0}
            onClick={() => void save()}
          >
            {works || models.length === 0 ? strings.save(models.length) : strings.saveUntested}
          </Button>
        )}
      </div>
    </div>
  );
}
