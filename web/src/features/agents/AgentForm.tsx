/** Form of an agent. */

import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useId, useState } from "react";
import type { Agent } from "@/api/agents";
import { useNameProblem } from "@/features/agents/useNameProblem";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { modelName, useModels } from "@/state/models";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { LoadingState } from "@/ui/states";

const CodeEditor = lazy(() => import("@/ui/CodeEditor"));

export function AgentForm({ agent, isNew }: { agent: Agent; isNew: boolean }) {
  const strings = useStrings();
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [draft, setDraft] = useState(agent);
  const [problem, setProblem] = useState<string | null>(null);
  const [saved, setSaved] = useState(false);
  const nameProblem = useNameProblem(draft.name, isNew);
  const change = (part: Partial<Agent>) => {
    setDraft((before) => ({ ...before, ...part }));
    setSaved(false);
  };

  const save = async () => {
    setProblem(null);
    try {
      await (isNew ? server.createAgent(draft) : server.updateAgent(draft));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : "");
      return;
    }
    setSaved(true);
    await queries.invalidateQueries({ queryKey: ["agents"] });
    if (isNew) await navigate({ to: "/agents/$name", params: { name: draft.name } });
  };

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
      className="flex flex-col gap-4"
    >
      {isNew && (
        <Field name={strings.agentName} hint={strings.agentNameHint} problem={nameProblem}>
          {(id) => (
            <input
              id={id}
              value={draft.name}
              onChange={(event) => change({ name: event.target.value })}
              autoComplete="off"
              className={INPUT}
            />
          )}
        </Field>
      )}
      <Field name={strings.agentDescription} hint={strings.agentDescriptionHint}>
        {(id) => (
          <input
            id={id}
            value={draft.description}
            onChange={(event) => change({ description: event.target.value })}
            className={INPUT}
          />
        )}
      </Field>
      <Field name={strings.model}>
        {(id) => <ModelChoice id={id} value={draft.model} onChoose={(model) => change({ model })} />}
      </Field>
      <Field name={strings.agentTools} hint={strings.agentToolsHint}>
        {(id) => (
          <input
            id={id}
            defaultValue={(agent.tool_groups ?? []).join(", ")}
            onChange={(event) => change({ tool_groups: groupsIn(event.target.value) })}
            className={INPUT}
          />
        )}
      </Field>
      <div className="flex flex-col gap-1">
        <h2 className="font-medium">{strings.agentSoul}</h2>
        <p className="text-small text-faint">{strings.agentSoulHint}</p>
        <div className="flex h-72 flex-col rounded-box border border-line-strong focus-within:border-accent">
          <Suspense fallback={<LoadingState />}>
            <CodeEditor
              text={agent.soul}
              ending="md"
              label={strings.agentSoul}
              onChange={(soul) => change({ soul })}
            />
          </Suspense>
        </div>
      </div>
      {problem !== null && (
        <p role="alert" className="rounded-box bg-error-tint px-3 py-2 text-error">
          {strings.agentNotSaved} {sentence(problem)}
        </p>
      )}
      <div className="flex items-center gap-3">
        <Button type="submit" primary disabled={isNew && (draft.name === "" || nameProblem !== null)}>
          {isNew ? strings.create : strings.save}
        </Button>
        <span role="status" className="text-small text-done">
          {saved ? strings.agentSaved : ""}
        </span>
      </div>
    </form>
  );
}

/** Parse a comma-separated list; empty means all groups. */
function groupsIn(text: string): readonly string[] | null {
  const groups = text.split(/[,，]/).map((group) => group.trim());
  const named = groups.filter((group) => group !== "");
  return named.length === 0 ? null : named;
}

interface FieldProps {
  readonly name: string;
  readonly hint?: string;
  readonly problem?: string | null;
  readonly children: (id: string) => ReactNode;
}

function Field({ name, hint, problem, children }: FieldProps) {
  const id = useId();
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="font-medium">
        {name}
      </label>
      {children(id)}
      {problem ? (
        <p role="alert" className="text-small text-error">
          {problem}
        </p>
      ) : (
        hint !== undefined && <p className="text-small text-faint">{hint}</p>
      )}
    </div>
  );
}

interface ModelChoiceProps {
  readonly id: string;
  readonly value: string | null;
  readonly onChoose: (model: string | null) => void;
}

function ModelChoice({ id, value, onChoose }: ModelChoiceProps) {
  const strings = useStrings();
  const models = useModels();
  const known = models.phase === "ready" ? models.value.models : [];
  const isUnknown = value !== null && !known.some(({ name }) => name === value);
  return (
    <select
      id={id}
      value={value ?? ""}
      onChange={(event) => onChoose(event.target.value || null)}
      className={INPUT}
    >
      <option value="">{strings.agentDefaultModel}</option>
      {isUnknown && <option value={value}>{value}</option>}
      {known.map((model) => (
        <option key={model.name} value={model.name}>
          {modelName(model)}
        </option>
      ))}
    </select>
  );
}

const INPUT = "h-9 rounded-box border border-line-strong bg-raised px-3 focus-visible:outline-accent";
