/** Forms to edit or reject an action. */

import { type FormEvent, type KeyboardEvent, type ReactNode, useId, useState } from "react";
import { type Fields, isRecord, parseJson } from "@/api/json";
import type { Decision } from "@/api/wire";
import { useStrings } from "@/i18n/context";
import type { ApprovalRequest } from "@/run/approval";
import { argsText } from "@/run/toolCalls";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";

interface EditProps {
  readonly call: ApprovalRequest["call"];
  readonly onDecide: (decision: Decision) => void;
  readonly onCancel: () => void;
}

export function EditForm({ call, onDecide, onCancel }: EditProps) {
  const strings = useStrings();
  const id = useId();
  // Commands are edited as text, other arguments as JSON.
  const { command } = call.args;
  const isCommand = typeof command === "string";
  const [text, setText] = useState(isCommand ? command : argsText(call));
  const [wrong, setWrong] = useState(false);

  const submit = () => {
    const args = isCommand ? { ...call.args, command: text } : argsIn(text);
    if (args === null) setWrong(true);
    else onDecide({ type: "edit", edited_action: { name: call.name, args } });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
  };
  return (
    <DecisionForm submitWord={strings.approveChanged} onSubmit={submit} onCancel={onCancel}>
      <label htmlFor={id} className="text-small text-faint">
        {isCommand ? strings.editCommand : strings.editArguments}
      </label>
      <textarea
        id={id}
        ref={focusOnMount}
        value={text}
        spellCheck={false}
        onChange={(event) => {
          setText(event.target.value);
          setWrong(false);
        }}
        onKeyDown={onKeyDown}
        aria-invalid={wrong}
        aria-describedby={wrong ? `${id}-wrong` : undefined}
        className="block field-sizing-content max-h-80 min-h-16 w-full resize-none rounded-box border border-line-strong bg-raised px-3 py-2 font-mono text-small"
      />
      {wrong && (
        <p id={`${id}-wrong`} role="alert" className="text-small text-error">
          {strings.notArguments}
        </p>
      )}
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
    <DecisionForm submitWord={strings.reject} onSubmit={submit} onCancel={onCancel}>
      <label htmlFor={id} className="text-small text-faint">
        {strings.rejectReason}
      </label>
      <input
        id={id}
        ref={focusOnMount}
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        className="block h-9 w-full rounded-box border border-line-strong bg-raised px-3 text-ui"
      />
    </DecisionForm>
  );
}

interface FormProps {
  readonly submitWord: string;
  readonly onSubmit: () => void;
  readonly onCancel: () => void;
  readonly children: ReactNode;
}

function DecisionForm({ submitWord, onSubmit, onCancel, children }: FormProps) {
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
        <Button primary type="submit">
          {submitWord}
        </Button>
        <Button onClick={onCancel}>{strings.cancel}</Button>
      </div>
    </form>
  );
}

function argsIn(text: string): Fields | null {
  const args = parseJson(text);
  return isRecord(args) ? args : null;
}
