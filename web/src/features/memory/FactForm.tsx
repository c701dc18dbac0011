/** Form of a fact; rejected input is kept. */

import { useId, useState } from "react";
import { CATEGORIES, type Category, type FactText } from "@/api/memory";
import { useLanguage, useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";

interface Props {
  readonly fact: FactText;
  readonly submitWord: string;
  readonly busy: boolean;
  readonly problem: string | null;
  readonly onSave: (fact: FactText) => void;
  readonly onCancel: () => void;
}

export function FactForm({ fact, submitWord, busy, problem, onSave, onCancel }: Props) {
  const { cancel } = useStrings();
  const strings = useMemoryStrings();
  const [content, setContent] = useState(fact.content);
  const [category, setCategory] = useState(fact.category);
  const [confidence, setConfidence] = useState(fact.confidence);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSave({ content, category, confidence });
      }}
      onKeyDown={(event) => event.key === "Escape" && onCancel()}
      className="flex flex-col gap-3"
    >
      <textarea
        ref={focusOnMount}
        value={content}
        rows={2}
        maxLength={4000}
        onChange={(event) => setContent(event.target.value)}
        aria-label={strings.fact}
        placeholder={strings.factPlaceholder}
        className="field-sizing-content max-h-[40dvh] min-h-16 resize-none rounded-box border border-line-strong bg-raised px-3 py-2 outline-none placeholder:text-faint focus:border-accent"
      />
      {problem !== null && (
        <p role="alert" className="text-small text-error">
          {strings.notSaved} {sentence(problem)}
        </p>
      )}
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <KindPicker value={category} onChoose={setCategory} />
        <ConfidenceInput value={confidence} onChange={setConfidence} />
        <div className="ml-auto flex gap-2">
          <Button onClick={onCancel}>{cancel}</Button>
          <Button type="submit" primary disabled={busy || content.trim() === ""}>
            {submitWord}
          </Button>
        </div>
      </div>
    </form>
  );
}

function KindPicker({ value, onChoose }: { value: Category; onChoose: (category: Category) => void }) {
  const strings = useMemoryStrings();
  return (
    <select
      value={value}
      aria-label={strings.kind}
      onChange={(event) => onChoose(event.target.value as Category)}
      className="h-8 rounded-box border border-line-strong bg-raised px-2"
    >
      {CATEGORIES.map((category) => (
        <option key={category} value={category}>
          {strings.kinds[category]}
        </option>
      ))}
    </select>
  );
}

function ConfidenceInput({ value, onChange }: { value: number; onChange: (value: number) => void }) {
  const strings = useMemoryStrings();
  const language = useLanguage();
  const id = useId();
  return (
    <div className="flex items-center gap-2 text-small text-soft">
      <input
        id={id}
        type="range"
        min={0}
        max={1}
        step={0.05}
        value={value}
        aria-label={strings.confidenceField}
        onChange={(event) => onChange(Number(event.target.value))}
        className="w-24 accent-accent"
      />
      <output htmlFor={id} className="min-w-16">
        {strings.confidenceLabel(formatPercent(value, language))}
      </output>
    </div>
  );
}

export function formatPercent(value: number, language: string): string {
  return new Intl.NumberFormat(language, { style: "percent" }).format(value);
}
