/** Editor of a SKILL.md; rejected input is kept. */

import { lazy, Suspense, useState } from "react";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { Button } from "@/ui/Button";
import { LoadingState } from "@/ui/states";

const CodeEditor = lazy(() => import("@/ui/CodeEditor"));

interface Props {
  readonly text: string;
  readonly submitWord: string;
  /** Throws if the server rejects it. */
  readonly onSave: (text: string) => Promise<void>;
  readonly onCancel?: () => void;
}

export function SkillEditor({ text: first, submitWord, onSave, onCancel }: Props) {
  const strings = useStrings();
  const [text, setText] = useState(first);
  const [saving, setSaving] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const save = async () => {
    setSaving(true);
    setProblem(null);
    try {
      await onSave(text);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setSaving(false);
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
      className="flex flex-col gap-3"
    >
      <div className="flex h-[60dvh] flex-col rounded-box border border-line-strong focus-within:border-accent">
        <Suspense fallback={<LoadingState />}>
          <CodeEditor text={first} ending="md" label="SKILL.md" onChange={setText} />
        </Suspense>
      </div>
      {problem !== null && (
        <p role="alert" className="rounded-box bg-error-tint px-3 py-2 whitespace-pre-wrap text-error">
          {strings.skill.notSaved} {sentence(problem)}
        </p>
      )}
      <div className="flex gap-2">
        <Button type="submit" primary disabled={saving || text.trim() === ""}>
          {submitWord}
        </Button>
        {onCancel !== undefined && <Button onClick={onCancel}>{strings.cancel}</Button>}
      </div>
    </form>
  );
}
