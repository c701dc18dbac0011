/** Form of an agent. */

import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useId, useState } from "react";
import type { Agent } from "@/api/agents";
import { SkillChoice, ToolChoice } from "@/features/agents/choices";
import { useNameProblem } from "@/features/agents/useNameProblem";
import { useAgentStrings } from "@/i18n/agents";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { modelName, useModels } from "@/state/models";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { LoadingState } from "@/ui/states";

const CodeEditor = lazy(() => import("@/ui/CodeEditor"));

export function AgentForm({ agent, isNew }: { agent: Agent; isNew: boolean }) {
  const strings = useStrings();
  const words = useAgentStrings();
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [draft, setDraft] = useState(agent);
  const [problem, setProblem] = useState<string | null>(null);
  const [saved, setSaved] = useState(false);
  const nameProblem = useNameProblem(draft.name, isNew);
  // Kept as it is typed: blank lines are dropped from the draft only.
  const [starters, setStarters] = useState(agent.starters.join("\n"));
  const startersFit =
    draft.starters.length <= MAX_STARTERS &&
    draft.starters.every(({ length }) => length <= MAX_STARTER_CHARS);
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
      <ToolChoice value={draft.tool_groups} onChoose={(tool_groups) => change({ tool_groups })} />
      <SkillChoice value={draft.skills} onChoose={(skills) => change({ skills })} />
      <div className="flex flex-col gap-1">
        <h2 className="font-medium">{words.instructions}</h2>
        <p className="text-small text-faint">{words.instructionsHint}</p>
        <div className="flex h-72 flex-col rounded-box border border-line-strong focus-within:border-accent">
          <Suspense fallback={<LoadingState />}>
            <CodeEditor
              text={agent.soul}
              ending="md"
              label={words.instructions}
              onChange={(soul) => change({ soul })}
            />
          </Suspense>
        </div>
      </div>
      <Field
        name={words.starters}
        hint={words.startersHint}
        problem={startersFit ? null : words.tooManyStarters}
      >
        {(id) => (
          <textarea
            id={id}
            rows={3}
            value={starters}
            onChange={(event) => {
              setStarters(event.target.value);
              change({ starters: linesIn(event.target.value) });
            }}
            className="field-sizing-content max-h-60 min-h-20 resize-none rounded-box border border-line-strong bg-raised px-3 py-2 focus-visible:outline-accent"
          />
        )}
      </Field>
      {problem !== null && (
        <p role="alert" className="rounded-box bg-error-tint px-3 py-2 text-error">
          {strings.agentNotSaved} {sentence(problem)}
        </p>
      )}
      <div className="flex items-center gap-3">
        <Button
          type="submit"
          primary
          disabled={!startersFit || (isNew && (draft.name === "" || nameProblem !== null))}
        >
          {isNew ? strings.create : strings.save}
        </Button>
        <span role="status" className="text-small text-done">
          {saved ? strings.agentSaved : ""}
        </span>
      </div>
    </form>
  );
}

const MAX_STARTERS = 6;
const MAX_STARTER_CHARS = 500;

function linesIn(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
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
