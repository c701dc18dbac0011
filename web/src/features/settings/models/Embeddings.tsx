/** Embedding model of the server: the one on this machine, or one of a provider. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Check } from "lucide-react";
import { useState } from "react";
import type { EmbeddingModel, Endpoint } from "@/api/models";
import { embeddingQuery, providersQuery, useModelStrings } from "@/features/settings/models/useConnections";
import { Fact, Section } from "@/features/settings/Section";
import { useStrings } from "@/i18n/context";
import { useEmbeddingStrings } from "@/i18n/embeddings";
import { sentence } from "@/i18n/i18n";
import { PROJECTS_KEY } from "@/state/queries";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Field, INPUT } from "@/ui/fields";

const LOCAL = "minilm";
/** Providers with an API of their own; the server knows no embedding models of theirs. */
const OTHER_APIS: ReadonlySet<string> = new Set(["anthropic", "gemini"]);

export function Embeddings() {
  const page = useStrings();
  const strings = useEmbeddingStrings();
  const used = useQuery(embeddingQuery(useServer()));
  return (
    <Section title={strings.title} anchor="embeddings">
      {used.isError && (
        <Fact name={strings.unavailable}>
          <Button onClick={() => void used.refetch()}>{page.tryAgain}</Button>
        </Fact>
      )}
      {used.data && <Model used={used.data} />}
    </Section>
  );
}

function Model({ used }: { used: EmbeddingModel }) {
  const strings = useEmbeddingStrings();
  const server = useServer();
  const [connecting, setConnecting] = useState(false);
  const useLocal = useEmbeddingChange(() =>
    server.saveEmbeddingModel({ provider: LOCAL, base_url: null, key: null }, null),
  );
  const removing = useEmbeddingChange(() => server.removeEmbeddingModel());
  const problem = useLocal.error ?? removing.error;
  const fixed = used.origin === "config" ? strings.fromConfig : strings.adminOnly;
  return (
    <>
      <Fact
        name={
          <>
            <p role="status" className={used.model === null ? "text-soft" : "font-medium"}>
              {used.model === null ? strings.none : strings.inUse(used.model)}
            </p>
            {used.base_url !== null && (
              <code className="font-mono text-small text-faint [overflow-wrap:anywhere]">
                {used.base_url}
              </code>
            )}
            {!used.can_change && <p className="text-small text-faint">{fixed}</p>}
          </>
        }
      >
        {used.can_change && used.origin === "saved" && (
          <Button disabled={removing.isPending} onClick={() => removing.mutate(undefined)}>
            {strings.remove}
          </Button>
        )}
      </Fact>
      {problem && (
        <p role="alert" className="px-4 py-2 text-small text-error">
          {strings.notChanged} {sentence(problem.message)}
        </p>
      )}
      {used.can_change && (
        <>
          <LocalModel used={used} isPending={useLocal.isPending} onUse={() => useLocal.mutate(undefined)} />
          {connecting ? (
            <Connect onDone={() => setConnecting(false)} />
          ) : (
            <Fact name={null}>
              <Button onClick={() => setConnecting(true)}>{strings.connect}</Button>
            </Fact>
          )}
        </>
      )}
    </>
  );
}

interface LocalProps {
  readonly used: EmbeddingModel;
  readonly isPending: boolean;
  readonly onUse: () => void;
}

function LocalModel({ used, isPending, onUse }: LocalProps) {
  const strings = useEmbeddingStrings();
  if (used.provider === LOCAL) return null;
  return (
    <Fact
      name={
        <>
          <div className="font-medium">{strings.local}</div>
          <p className="text-small text-faint">
            {used.is_local_installed ? strings.localHint : strings.install}
          </p>
          {!used.is_local_installed && <code className="font-mono text-small">{used.install_command}</code>}
        </>
      }
    >
      {used.is_local_installed && (
        <Button primary disabled={isPending} onClick={onUse}>
          {strings.useLocal}
        </Button>
      )}
    </Fact>
  );
}

function Connect({ onDone }: { onDone: () => void }) {
  const page = useStrings();
  const strings = useEmbeddingStrings();
  const texts = useModelStrings();
  const server = useServer();
  const providers = useQuery(providersQuery(server));
  const all = (providers.data?.providers ?? []).filter(({ id }) => !OTHER_APIS.has(id));
  const [provider, setProvider] = useState("custom");
  const [address, setAddress] = useState("");
  const [key, setKey] = useState("");
  const [model, setModel] = useState("");
  const endpoint: Endpoint = { provider, base_url: address.trim() || null, key: key.trim() || null };
  const checking = useMutation({
    networkMode: "always",
    mutationFn: (tested: string | null) => server.checkEmbeddingModel(endpoint, tested),
    onSuccess: (found) => {
      setAddress(found.base_url);
      setModel(found.tested ?? "");
    },
  });
  const saving = useEmbeddingChange(() => server.saveEmbeddingModel(endpoint, model));
  const check = checking.data ?? null;
  const problem = checking.error ?? saving.error;
  return (
    <form
      className="flex flex-col gap-3 px-4 py-3"
      onSubmit={(event) => {
        event.preventDefault();
        checking.mutate(model || null);
      }}
    >
      <Field name={strings.provider}>
        {(ids) => (
          <select
            {...ids}
            className={INPUT}
            value={provider}
            onChange={(event) => {
              setProvider(event.target.value);
              setAddress("");
            }}
          >
            {all.map(({ id, title }) => (
              <option key={id} value={id}>
                {title}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field name={strings.address} hint={strings.addressHint}>
        {(ids) => (
          <input
            {...ids}
            value={address}
            placeholder={all.find(({ id }) => id === provider)?.base_url ?? ""}
            spellCheck={false}
            onChange={(event) => setAddress(event.target.value)}
            className={`${INPUT} font-mono text-small`}
          />
        )}
      </Field>
      <Field name={strings.key} hint={strings.keyHint}>
        {(ids) => (
          <input
            {...ids}
            type="password"
            autoComplete="off"
            value={key}
            onChange={(event) => setKey(event.target.value)}
            className={`${INPUT} font-mono`}
          />
        )}
      </Field>
      {check !== null && check.models.length > 0 && (
        <Field name={strings.model}>
          {(ids) => (
            <select
              {...ids}
              className={INPUT}
              value={model}
              onChange={(event) => setModel(event.target.value)}
            >
              {check.models.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          )}
        </Field>
      )}
      <p role="status" className="text-soft empty:hidden">
        {checking.isPending && strings.checking}
        {check?.dimensions != null && check.tested === model && !checking.isPending && (
          <span className="flex items-center gap-2 text-done">
            <Check aria-hidden className="size-4" />
            {strings.works(check.tested, check.dimensions)}
          </span>
        )}
      </p>
      {check?.problem && (
        <p role="alert" className="rounded-box bg-error-tint px-3 py-2 text-error">
          {texts.problems[check.problem.code].message(check.problem.values)}{" "}
          {texts.problems[check.problem.code].remedy(check.problem.values)}
        </p>
      )}
      {problem && (
        <p role="alert" className="text-small text-error">
          {strings.notChanged} {sentence(problem.message)}
        </p>
      )}
      <div className="flex flex-wrap gap-2">
        <Button type="submit" primary={check?.dimensions == null} disabled={checking.isPending}>
          {strings.check}
        </Button>
        {check?.dimensions != null && (
          <Button
            primary
            disabled={saving.isPending || model === ""}
            onClick={() => saving.mutate(undefined, { onSuccess: onDone })}
          >
            {strings.save}
          </Button>
        )}
        <Button onClick={onDone}>{page.cancel}</Button>
      </div>
    </form>
  );
}

/** Mutation of the embedding model; the projects then show another one. */
function useEmbeddingChange(change: () => Promise<EmbeddingModel>) {
  const server = useServer();
  const queries = useQueryClient();
  return useMutation<EmbeddingModel, Error, undefined>({
    networkMode: "always",
    mutationFn: change,
    onSuccess: async (changed) => {
      const { queryKey } = embeddingQuery(server);
      await queries.cancelQueries({ queryKey });
      queries.setQueryData(queryKey, changed);
      await queries.invalidateQueries({ queryKey: PROJECTS_KEY });
    },
  });
}
