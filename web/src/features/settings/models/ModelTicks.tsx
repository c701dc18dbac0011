/** Models of an endpoint to tick, and a field for a name that is not listed. */

import { useState } from "react";
import type { CheckedModel } from "@/api/models";
import { useModelStrings } from "@/features/settings/models/useConnections";
import { useLanguage } from "@/i18n/context";
import { formatCount } from "@/i18n/format";
import { Button } from "@/ui/Button";
import { Field, INPUT } from "@/ui/fields";

interface Props {
  readonly models: readonly CheckedModel[];
  /** Names that were entered. */
  readonly named: readonly string[];
  readonly ticked: ReadonlySet<string>;
  readonly onTick: (model: string, on: boolean) => void;
  readonly onName: (model: string) => void;
}

/** A longer list can be filtered. */
const MANY = 8;
/** Rows at most; the filter finds the others. */
const SHOWN = 60;

export function ModelTicks({ models, named, ticked, onTick, onName }: Props) {
  const strings = useModelStrings();
  const [filter, setFilter] = useState("");
  const listed = new Set(models.map(({ model }) => model));
  const all = [...named.filter((name) => !listed.has(name)).map(unlisted), ...models];
  const wanted = filter.trim().toLowerCase();
  const found = all.filter(({ model, display_name }) =>
    `${model} ${display_name ?? ""}`.toLowerCase().includes(wanted),
  );
  return (
    <section aria-label={strings.models} className="flex flex-col gap-2">
      {all.length > 0 && <h3 className="font-medium">{strings.models}</h3>}
      {all.length > MANY && (
        <input
          aria-label={strings.filter}
          placeholder={strings.filter}
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
          className={INPUT}
        />
      )}
      {all.length > 0 && (
        <ul className="max-h-72 divide-y divide-line overflow-y-auto rounded-box border border-line">
          {found.slice(0, SHOWN).map((model) => (
            <Row
              key={model.model}
              model={model}
              on={ticked.has(model.model)}
              onTick={(on) => onTick(model.model, on)}
            />
          ))}
          {found.length === 0 && <li className="px-3 py-2 text-soft">{strings.noMatch}</li>}
        </ul>
      )}
      <OtherModel onName={onName} />
    </section>
  );
}

function Row({ model, on, onTick }: { model: CheckedModel; on: boolean; onTick: (on: boolean) => void }) {
  const strings = useModelStrings();
  const language = useLanguage();
  const { prices } = model;
  const facts = [
    model.is_recommended && strings.recommended,
    model.vision === true && strings.vision,
    model.reasoning === true && strings.reasoning,
    model.tools === false && strings.noTools,
    model.context_window !== null && strings.context(formatCount(model.context_window, language)),
    prices !== null && strings.price(amount(prices.input), amount(prices.output)),
  ].filter((fact) => fact !== false);
  return (
    <li>
      <label className="flex cursor-pointer items-start gap-3 px-3 py-2 hover:bg-tint">
        <input
          type="checkbox"
          checked={on}
          onChange={(event) => onTick(event.target.checked)}
          className="mt-1 size-4 shrink-0 accent-accent"
        />
        <span className="min-w-0 [overflow-wrap:anywhere]">
          <span className="block">
            {model.display_name ?? model.model}{" "}
            {model.display_name !== null && (
              <code className="ml-1 font-mono text-small text-faint">{model.model}</code>
            )}
          </span>
          {facts.length > 0 && <span className="block text-small text-faint"> {facts.join(" · ")}</span>}
        </span>
      </label>
    </li>
  );
}

function OtherModel({ onName }: { onName: (model: string) => void }) {
  const strings = useModelStrings();
  const [name, setName] = useState("");
  return (
    <form
      className="flex items-end gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim() === "") return;
        onName(name.trim());
        setName("");
      }}
    >
      <div className="min-w-0 flex-1">
        <Field name={strings.otherModel} hint={strings.otherModelHint}>
          {(ids) => (
            <input
              {...ids}
              value={name}
              autoComplete="off"
              spellCheck={false}
              maxLength={255}
              onChange={(event) => setName(event.target.value)}
              className={`${INPUT} font-mono text-small`}
            />
          )}
        </Field>
      </div>
      <Button type="submit" disabled={name.trim() === ""} className="mb-6">
        {strings.add}
      </Button>
    </form>
  );
}

function unlisted(model: string): CheckedModel {
  return {
    model,
    display_name: null,
    context_window: null,
    tools: null,
    reasoning: null,
    vision: null,
    prices: null,
    is_recommended: false,
  };
}

function amount(price: number): string {
  return price.toFixed(2);
}
