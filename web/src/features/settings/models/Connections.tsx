/** Saved connections: test, replace the key, add models, remove. */

import { useMutation, useQuery } from "@tanstack/react-query";
import { KeyRound, Trash2 } from "lucide-react";
import { useState } from "react";
import type { ModelConnection } from "@/api/models";
import { CheckResult } from "@/features/settings/models/CheckResult";
import {
  connectionsQuery,
  useConnectionChange,
  useModelStrings,
} from "@/features/settings/models/useConnections";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useActions } from "@/state/context";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";
import { Field, INPUT } from "@/ui/fields";
import { IconButton } from "@/ui/IconButton";
import { Switch } from "@/ui/Switch";

export function Connections() {
  const page = useStrings();
  const strings = useModelStrings();
  const connections = useQuery(connectionsQuery(useServer()));
  if (connections.isError) {
    return (
      <p className="flex flex-wrap items-center gap-3 text-soft">
        {strings.connectionsUnavailable}
        <Button onClick={() => void connections.refetch()}>{page.tryAgain}</Button>
      </p>
    );
  }
  if (connections.data === undefined || connections.data.length === 0) return null;
  return (
    <section aria-label={strings.connections}>
      <h3 className="mb-2 font-semibold">{strings.connections}</h3>
      <ul className="divide-y divide-line rounded-box border border-line">
        {connections.data.map((connection) => (
          <Connection key={connection.connection_id} connection={connection} />
        ))}
      </ul>
    </section>
  );
}

type Doing = "replacing" | "removing" | null;

function Connection({ connection }: { connection: ModelConnection }) {
  const page = useStrings();
  const strings = useModelStrings();
  const server = useServer();
  const actions = useActions();
  const id = connection.connection_id;
  const [doing, setDoing] = useState<Doing>(null);
  const testing = useMutation({ networkMode: "always", mutationFn: () => server.checkModelConnection(id) });
  const removing = useConnectionChange(() => server.removeModelConnection(id));
  const sharing = useConnectionChange((shared: boolean) => server.shareModelConnection(id, shared));
  const problem = testing.error ?? removing.error ?? sharing.error;
  if (!connection.is_own) return <SharedConnection connection={connection} />;
  return (
    <li className="flex flex-col gap-3 px-4 py-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <div className="min-w-0">
          <div className="font-medium">{connection.title}</div>
          <div className="font-mono text-small text-faint [overflow-wrap:anywhere]">
            {connection.base_url}
          </div>
          <div
            className={`mt-1 flex items-center gap-1 text-small ${connection.key === "unreadable" ? "text-warning" : "text-soft"}`}
          >
            <KeyRound aria-hidden className="size-3.5" />
            {strings.keyStates[connection.key]}
          </div>
        </div>
        <div className="grid basis-full grid-cols-2 gap-2 wide:flex wide:basis-auto">
          <Button disabled={testing.isPending} onClick={() => testing.mutate()}>
            {testing.isPending ? strings.testing : strings.test}
          </Button>
          <Button onClick={() => setDoing("replacing")}>{strings.replaceKey}</Button>
          <Button onClick={() => actions.connectModel({ connectionId: id })}>{strings.addModels}</Button>
          <Button onClick={() => setDoing("removing")}>{strings.remove}</Button>
        </div>
      </div>
      {connection.can_share && (
        <div className="flex items-center justify-between gap-3 text-small text-soft">
          {strings.shareHint}
          <Switch
            label={strings.share(connection.title)}
            on={connection.is_shared}
            disabled={sharing.isPending}
            onSwitch={(on) => sharing.mutate(on)}
          />
        </div>
      )}
      {doing === "removing" && (
        <div role="alert" className="flex flex-wrap items-center gap-2 rounded-box bg-warning-tint px-3 py-2">
          <span className="min-w-0 flex-1">{strings.removeSure(connection.title)}</span>
          <Button disabled={removing.isPending} onClick={() => removing.mutate(undefined)}>
            {strings.remove}
          </Button>
          <Button onClick={() => setDoing(null)}>{page.cancel}</Button>
        </div>
      )}
      {doing === "replacing" && <KeyForm connection={connection} onDone={() => setDoing(null)} />}
      {problem && (
        <p role="alert" className="text-small text-error">
          {strings.notChanged} {sentence(problem.message)}
        </p>
      )}
      {testing.data && <CheckResult check={testing.data} entered={connection.base_url} />}
      <ul className="flex flex-col">
        {connection.models.map((model) => (
          <SavedModel key={model.name} model={model} />
        ))}
      </ul>
    </li>
  );
}

/** Connection of an administrator: its models can be used, not changed. */
function SharedConnection({ connection }: { connection: ModelConnection }) {
  const strings = useModelStrings();
  return (
    <li className="flex flex-col gap-1 px-4 py-3">
      <div className="font-medium">{connection.title}</div>
      <p className="text-small text-soft">{strings.sharedWithYou}</p>
      <ul>
        {connection.models.map(({ name, display_name }) => (
          <li key={name} className="[overflow-wrap:anywhere]">
            {display_name} <code className="font-mono text-small text-faint">{name}</code>
          </li>
        ))}
      </ul>
    </li>
  );
}

function SavedModel({ model }: { model: ModelConnection["models"][number] }) {
  const strings = useModelStrings();
  const server = useServer();
  const removing = useConnectionChange(() => server.removeSavedModel(model.name));
  return (
    <li className="flex items-center gap-2">
      <div className="min-w-0 flex-1 [overflow-wrap:anywhere]">
        {model.display_name} <code className="font-mono text-small text-faint">{model.name}</code>
        {model.is_shadowed && <p className="text-small text-warning">{strings.shadowed(model.name)}</p>}
        {removing.isError && <p className="text-small text-error">{strings.notChanged}</p>}
      </div>
      <IconButton
        icon={Trash2}
        label={strings.removeModel(model.name)}
        disabled={removing.isPending}
        onClick={() => removing.mutate(undefined)}
      />
    </li>
  );
}

interface KeyFormProps {
  readonly connection: ModelConnection;
  readonly onDone: () => void;
  readonly onCancel?: () => void;
}

export function KeyForm({ connection, onDone, onCancel = onDone }: KeyFormProps) {
  const page = useStrings();
  const strings = useModelStrings();
  const server = useServer();
  const [key, setKey] = useState("");
  const replacing = useConnectionChange(() => server.replaceModelKey(connection.connection_id, key.trim()));
  return (
    <form
      className="flex flex-col gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        replacing.mutate(undefined, { onSuccess: onDone });
      }}
    >
      <Field
        name={strings.newKey}
        hint={strings.keyHint}
        problem={replacing.isError ? sentence(replacing.error.message) : null}
      >
        {(ids) => (
          <input
            ref={focusOnMount}
            {...ids}
            type="password"
            autoComplete="off"
            value={key}
            onChange={(event) => setKey(event.target.value)}
            className={`${INPUT} font-mono`}
          />
        )}
      </Field>
      <div className="flex gap-2">
        <Button type="submit" primary disabled={key.trim() === "" || replacing.isPending}>
          {page.save}
        </Button>
        <Button onClick={onCancel}>{page.cancel}</Button>
      </div>
    </form>
  );
}
