/** Labelled fields of forms. */

import { type ReactNode, useId } from "react";

/** Attributes that connect an input with its label and hint. */
interface FieldIds {
  readonly id: string;
  readonly "aria-describedby": string | undefined;
}

interface FieldProps {
  readonly name: string;
  readonly hint?: string | undefined;
  readonly problem?: string | null;
  readonly children: (ids: FieldIds) => ReactNode;
}

export function Field({ name, hint, problem = null, children }: FieldProps) {
  const id = useId();
  const noteId = useId();
  const hasNote = problem !== null || hint !== undefined;
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="font-medium">
        {name}
      </label>
      {children({ id, "aria-describedby": hasNote ? noteId : undefined })}
      {problem !== null ? (
        <p id={noteId} role="alert" className="text-small text-error">
          {problem}
        </p>
      ) : (
        hint !== undefined && (
          <p id={noteId} className="text-small text-faint">
            {hint}
          </p>
        )
      )}
    </div>
  );
}

interface LineProps {
  readonly name: string;
  readonly hint?: string | undefined;
  readonly mono?: boolean;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

export function Line({ name, hint, mono = false, value, onChange }: LineProps) {
  return (
    <Field name={name} hint={hint}>
      {(ids) => (
        <input
          {...ids}
          value={value}
          autoComplete="off"
          spellCheck={!mono}
          onChange={(event) => onChange(event.target.value)}
          className={`${INPUT} ${mono ? "font-mono text-small" : ""}`}
        />
      )}
    </Field>
  );
}

export function Lines({ name, hint, value, onChange }: LineProps) {
  return (
    <Field name={name} hint={hint}>
      {(ids) => (
        <textarea
          {...ids}
          value={value}
          rows={2}
          spellCheck={false}
          onChange={(event) => onChange(event.target.value)}
          className="field-sizing-content max-h-60 min-h-16 resize-none rounded-box border border-line-strong bg-raised px-3 py-2 font-mono text-small outline-none focus:border-accent"
        />
      )}
    </Field>
  );
}

interface ChoiceProps<Value extends string> {
  readonly name: string;
  readonly value: Value;
  readonly options: Readonly<Record<Value, string>>;
  readonly onChoose: (value: Value) => void;
}

export function Choice<Value extends string>({ name, value, options, onChoose }: ChoiceProps<Value>) {
  return (
    <Field name={name}>
      {(ids) => (
        <select
          {...ids}
          value={value}
          onChange={(event) => onChoose(event.target.value as Value)}
          className={INPUT}
        >
          {(Object.keys(options) as Value[]).map((option) => (
            <option key={option} value={option}>
              {options[option]}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export const INPUT =
  "h-9 rounded-box border border-line-strong bg-raised px-3 outline-none focus:border-accent";
