/** Form of an MCP server; rejected input is kept. */

import { useState } from "react";
import type { McpEntry } from "@/api/tools";
import { BadLine, draftOf, type EntryDraft, entryOf } from "@/features/tools/entry";
import { useToolStrings } from "@/features/tools/useTools";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";
import { Choice, Field, INPUT, Line, Lines } from "@/ui/fields";
import { Segments } from "@/ui/Segments";
import { Switch } from "@/ui/Switch";

interface Props {
  /** Null for a new server. */
  readonly name: string | null;
  readonly entry: McpEntry;
  /** Existing names. */
  readonly taken: readonly string[];
  /** Connection chosen above the form; without it the form asks. */
  readonly way?: EntryDraft["way"];
  /** Throws if the server rejects it. */
  readonly onSave: (name: string, entry: McpEntry) => Promise<unknown>;
  readonly onCancel: () => void;
}

export function ServerForm({ name: first, entry, taken, way, onSave, onCancel }: Props) {
  const page = useStrings();
  const strings = useToolStrings();
  const [name, setName] = useState(first ?? "");
  const [written, setDraft] = useState(() => draftOf(entry));
  const draft: EntryDraft = way === undefined ? written : { ...written, way };
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const change = (part: Partial<EntryDraft>) => setDraft((before) => ({ ...before, ...part }));
  const isTaken = first === null && taken.includes(name.trim());
  const isComplete = name.trim() !== "" && (draft.way === "stdio" ? draft.command : draft.url).trim() !== "";
  const save = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await onSave(name.trim(), entryOf(draft, entry));
    } catch (error) {
      if (error instanceof BadLine) setProblem(strings.badLine(error.message));
      else setProblem(sentence(error instanceof Error ? error.message : ""));
      setBusy(false);
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
      className="flex flex-col gap-4"
    >
      {first === null && (
        <Field name={strings.name} hint={strings.nameHint} problem={isTaken ? strings.nameTaken : null}>
          {(ids) => (
            <input
              ref={focusOnMount}
              {...ids}
              value={name}
              maxLength={64}
              autoComplete="off"
              onChange={(event) => setName(event.target.value)}
              className={INPUT}
            />
          )}
        </Field>
      )}
      {way === undefined && (
        <div className="flex">
          <Segments
            label={strings.how}
            value={draft.way}
            options={strings.ways}
            onChoose={(way) => change({ way })}
          />
        </div>
      )}
      {draft.way === "stdio" ? (
        <Program draft={draft} change={change} isNew={first === null} />
      ) : (
        <Address draft={draft} change={change} isNew={first === null} />
      )}
      <Line
        name={strings.description}
        hint={strings.descriptionHint}
        value={draft.description}
        onChange={(description) => change({ description })}
      />
      {problem !== null && (
        <p
          role="alert"
          className="rounded-box bg-error-tint px-3 py-2 whitespace-pre-wrap text-error [overflow-wrap:anywhere]"
        >
          {strings.notSaved} {problem}
        </p>
      )}
      <div className="flex gap-2">
        <Button type="submit" primary disabled={busy || !isComplete || isTaken}>
          {first === null ? strings.add : page.save}
        </Button>
        <Button onClick={onCancel}>{page.cancel}</Button>
      </div>
    </form>
  );
}

interface PartProps {
  readonly draft: EntryDraft;
  readonly change: (part: Partial<EntryDraft>) => void;
  /** A new server has no stored secrets. */
  readonly isNew: boolean;
}

/** Programs that fetch the server as a package. */
const RUNNERS = /(^|\/)(npx|uvx|bunx|pipx)$/;

function Program({ draft, change, isNew }: PartProps) {
  const strings = useToolStrings();
  return (
    <>
      <Line
        name={strings.command}
        hint={strings.commandHint}
        mono
        value={draft.command}
        onChange={(command) => change({ command })}
      />
      <Lines name={strings.args} value={draft.args} onChange={(args) => change({ args })} />
      <Lines
        name={strings.env}
        hint={isNew ? undefined : strings.envHint}
        value={draft.env}
        onChange={(env) => change({ env })}
      />
      <div className="flex items-center gap-3">
        <Switch on={draft.network} label={strings.network} onSwitch={(network) => change({ network })} />
        <span aria-hidden>{strings.network}</span>
      </div>
      {!draft.network && RUNNERS.test(draft.command.trim()) && (
        <p role="note" className="-mt-2 text-small text-faint">
          {strings.networkHint}
        </p>
      )}
    </>
  );
}

function Address({ draft, change, isNew }: PartProps) {
  const strings = useToolStrings();
  return (
    <>
      <Line name={strings.url} mono value={draft.url} onChange={(url) => change({ url })} />
      <div className="flex flex-wrap gap-4">
        <Choice
          name={strings.transport}
          value={draft.transport}
          options={strings.transports}
          onChoose={(transport) => change({ transport })}
        />
        <Choice
          name={strings.loginWay}
          value={draft.login}
          options={strings.loginWays}
          onChoose={(login) => change({ login })}
        />
      </div>
      <Lines
        name={strings.headers}
        hint={isNew ? undefined : strings.envHint}
        value={draft.headers}
        onChange={(headers) => change({ headers })}
      />
    </>
  );
}
