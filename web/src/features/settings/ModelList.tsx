/** The models there are, which one answers, and how to have another. */

import { Info } from "lucide-react";
import { useActions, usePage, useWords } from "@/app/context";
import { currentModel, modelName } from "@/app/page";
import { Fact, Section } from "@/features/settings/Section";
import { Button } from "@/ui/Button";

export function ModelList() {
  const words = useWords();
  const actions = useActions();
  const models = usePage((page) => page.models);
  const current = usePage(currentModel);
  if (models.phase === "failed") {
    return (
      <Section title={words.models}>
        <Fact name={words.modelsUnavailable}>
          <Button onClick={() => void actions.loadModels()}>{words.tryAgain}</Button>
        </Fact>
      </Section>
    );
  }
  const known = models.phase === "ready" ? models.value.models : [];
  return (
    <Section title={words.models}>
      {known.map((model) => (
        <Fact
          key={model.name}
          name={
            <>
              <div className="font-medium">{modelName(model)}</div>
              <div className="text-small text-faint">
                {model.scripted ? words.modelScripted : model.model}
              </div>
            </>
          }
        >
          {model.name === current?.name ? (
            <span className="text-small text-done">{words.modelAnswers}</span>
          ) : (
            <Button onClick={() => actions.prefer({ model: model.name })}>{words.modelUse}</Button>
          )}
        </Fact>
      ))}
      <p className="flex gap-2 px-4 py-3 text-small text-faint">
        <Info aria-hidden className="mt-0.5 size-3.5 shrink-0" />
        <span>
          {words.modelAdd} <code className="font-mono text-soft">deerflow config init</code>
        </span>
      </p>
    </Section>
  );
}
