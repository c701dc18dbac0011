/** Forms to edit or reject an action. */

import { type FormEvent, type KeyboardEvent, type ReactNode, useId, useState } from "react";
import type { Decision } from "@/api/wire";
import { useStrings } from "@/i18n/context";
import type { ApprovalRequest } from "@/run/approval";
import { argumentTexts, editedArguments, isStructured, labelOf } from "@/run/arguments";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";

interface EditProps {
  readonly call: ApprovalRequest["call"];
  readonly onDecide: (decision: Decision) => void;
  readonly onCancel: () => void;
}

/** Edits each argument in a field of its own. */
export function EditForm({ call, onDecide, onCancel }: EditProps) {
  const strings = useStrings();
  const id = useId();
  const [texts, setTexts] = useState(() => argumentTexts(call.args));
  const [wrong, setWrong] = useState<string | null>(null);

  const submit = () => {
    const edited = editedArguments(call.args, texts);
    setWrong(edited.wrong);
    if (edited.wrong === null)
      onDecide({ type: "edit", edited_action: { name: call.name, args: edited.args } });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
  };
  // What the model says about a command is not part of it.
  const names = Object.keys(call.args).filter((name) => name !== "description" || !("command" in call.args));
  return (
    <DecisionForm submitWord={strings.approveChanged} onSubmit={submit} onCancel={onCancel}>
      {names.map((name, index) => (
        <div key={name} className="flex flex-col gap-1">
          <label htmlFor={`${id}-${name}`} className="text-small text-faint">
            {labelOf(name)}
          </label>
          <textarea
            id={`${id}-${name}`}
            ref={index === 0 ? focusOnMount : undefined}
            value={texts[name]}
            rows={1}
            spellCheck={false}
            onChange={({ target }) => {
              setTexts({ ...texts, [name]: target.value });
              setWrong(null);
            }}
            onKeyDown={onKeyDown}
            aria-invalid={wrong === name}
            aria-describedby={wrong === name ? `${id}-wrong` : undefined}
            className={`block field-sizing-content max-h-80 min-h-9 w-full resize-none rounded-box border border-line-strong bg-raised px-3 py-1.5 text-small outline-none focus:border-accent ${
              name === "command" || isStructured(call.args[name]) ? "font-mono" : ""
            }`}
          />
          {wrong === name && (
            <p id={`${id}-wrong`} role="alert" className="text-small text-error">
              {strings.notArgument}
            </p>
          )}
        </div>
      ))}
    </DecisionForm>
  );
}

export function RejectForm({ onDecide, onCancel }: Omit<EditProps, "call">) {
  const strings = useStrings();
  const id = useId();
  const [reason, setReason] = useState("");
  const submit = () => {
    const message = reason.trim();
    onDecide({ type: "reject", ...(message !== "" && { message }) });
  };
  return (
    <DecisionForm danger submitWord={strings.reject} onSubmit={submit} onCancel={onCancel}>
      <label htmlFor={id} className="text-small text-faint">
        {strings.rejectReason}
      </label>
      <input
        id={id}
        ref={focusOnMount}
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        className="block h-9 w-full rounded-box border border-line-strong bg-raised px-3 text-ui outline-none focus:border-accent"
      />
    </DecisionForm>
  );
}

interface FormProps {
  readonly submitWord: string;
  /** The decision is against the action. */
  readonly danger?: boolean;
  readonly onSubmit: () => void;
  readonly onCancel: () => void;
  readonly children: ReactNode;
}

function DecisionForm({ submitWord, danger = false, onSubmit, onCancel, children }: FormProps) {
  const strings = useStrings();
  return (
    <form
      onSubmit={(event: FormEvent) => {
        event.preventDefault();
        onSubmit();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        onCancel();
      }}
      className="flex flex-col gap-2"
    >
      {children}
      <div className="flex gap-2">
        <Button primary={!danger} type="submit" className={danger ? "border-error/50 text-error" : ""}>
          {submitWord}
        </Button>
        <Button onClick={onCancel}>{strings.cancel}</Button>
      </div>
    </form>
  );
}
