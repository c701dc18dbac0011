/** Form that calls a tool once, built from its JSON schema. */

import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { McpTool, ToolTrialResult } from "@/api/tools";
import { argumentsOf, fieldsOf, type TrialField, type TrialProblem } from "@/features/tools/trialFields";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useTrialStrings } from "@/i18n/trials";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Field, INPUT } from "@/ui/fields";

export function ToolTrial({ server: name, tool }: { server: string; tool: McpTool }) {
  const strings = useTrialStrings();
  const server = useServer();
  const fields = fieldsOf(tool.input_schema);
  const [values, setValues] = useState<Readonly<Record<string, string>>>(() =>
    Object.fromEntries(fields.map((field) => [field.name, field.initial])),
  );
  const [problems, setProblems] = useState<Readonly<Record<string, TrialProblem>>>({});
  const trial = useMutation({
    networkMode: "always",
    mutationFn: (call: { readonly args: Readonly<Record<string, unknown>>; readonly approved: boolean }) =>
      server.tryMcpTool(name, tool.name, call.args, call.approved),
  });
  const run = (approved: boolean) => {
    const read = argumentsOf(fields, values);
    setProblems(read.problems);
    if (Object.keys(read.problems).length === 0) trial.mutate({ args: read.args, approved });
  };
  return (
    <form
      aria-label={strings.tryThis(tool.name)}
      onSubmit={(event) => {
        event.preventDefault();
        run(false);
      }}
      className="mt-2 flex flex-col gap-3 rounded-box bg-rail p-3"
    >
      {fields.length === 0 && <p className="text-small text-faint">{strings.noInputs}</p>}
      {fields.map((field) => (
        <Input
          key={field.name}
          field={field}
          value={values[field.name] ?? ""}
          problem={problems[field.name] ?? null}
          onChange={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
        />
      ))}
      <div>
        <Button type="submit" primary disabled={trial.isPending}>
          {trial.isPending ? strings.running : strings.run}
        </Button>
      </div>
      {trial.isError && (
        <p role="alert" className="text-error [overflow-wrap:anywhere]">
          {strings.trialFailed} {sentence(trial.error.message)}
        </p>
      )}
      {trial.isSuccess && !trial.isPending && <Outcome result={trial.data} onApprove={() => run(true)} />}
    </form>
  );
}

interface InputProps {
  readonly field: TrialField;
  readonly value: string;
  readonly problem: TrialProblem | null;
  readonly onChange: (value: string) => void;
}

function Input({ field, value, problem, onChange }: InputProps) {
  const strings = useTrialStrings();
  const marks = [field.required && strings.required, field.kind === "json" && strings.json].filter(Boolean);
  const label = marks.length === 0 ? field.name : `${field.name} (${marks.join(", ")})`;
  return (
    <Field
      name={label}
      hint={field.description || undefined}
      problem={problem === null ? null : strings[problem]}
    >
      {(ids) =>
        field.options !== null ? (
          <select {...ids} value={value} onChange={(event) => onChange(event.target.value)} className={INPUT}>
            <option value="">{strings.notSet}</option>
            {field.options.map((option) => (
              <option key={option} value={option}>
                {option}
              </option>
            ))}
          </select>
        ) : field.kind === "json" ? (
          <textarea
            {...ids}
            value={value}
            rows={3}
            spellCheck={false}
            onChange={(event) => onChange(event.target.value)}
            className="field-sizing-content max-h-60 min-h-16 resize-none rounded-box border border-line-strong bg-raised px-3 py-2 font-mono text-small outline-none focus:border-accent"
          />
        ) : (
          <input
            {...ids}
            value={value}
            autoComplete="off"
            inputMode={field.kind === "number" ? "decimal" : undefined}
            onChange={(event) => onChange(event.target.value)}
            className={INPUT}
          />
        )
      }
    </Field>
  );
}

function Outcome({ result, onApprove }: { result: ToolTrialResult; onApprove: () => void }) {
  const strings = useTrialStrings();
  const page = useStrings();
  const known: Readonly<Record<string, string>> = page.policyReasons;
  const { outcome, text, reasons, seconds, is_truncated: truncated } = result;
  if (outcome === "ask" || outcome === "deny") {
    return (
      <div role="alert" className="flex flex-col items-start gap-2 text-warning">
        <p>{outcome === "ask" ? strings.asks : strings.denies}</p>
        <ul className="list-disc pl-5">
          {reasons.map(({ code, message }) => (
            <li key={code}>{known[code] ?? sentence(message)}</li>
          ))}
        </ul>
        {outcome === "ask" && <Button onClick={onApprove}>{strings.approveAndRun}</Button>}
      </div>
    );
  }
  return (
    <section aria-label={strings.result} role="status">
      <p className={`text-small ${outcome === "failed" ? "text-error" : "text-faint"}`}>
        {outcome === "failed" ? strings.trialFailed : strings.result}
        {seconds >= 1 && <span className="tabular-nums"> · {strings.took(seconds.toFixed(1))}</span>}
        {truncated && ` · ${strings.truncated}`}
      </p>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable with the keyboard
        tabIndex={0}
        className="mt-1 max-h-80 overflow-auto rounded-box border border-line bg-paper p-2 font-mono text-small whitespace-pre-wrap [overflow-wrap:anywhere]"
      >
        {text || strings.noResult}
      </pre>
    </section>
  );
}
