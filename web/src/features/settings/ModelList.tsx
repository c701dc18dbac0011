/** List of models with the one in use. */

import { Check, Info, KeyRound, Plus } from "lucide-react";
import type { ModelInfo } from "@/api/wire";
import { Fact, Section } from "@/features/settings/Section";
import { useStrings } from "@/i18n/context";
import { useActions } from "@/state/context";
import { modelName, useCurrentModel, useModels } from "@/state/models";
import { Button } from "@/ui/Button";
import { InlineCode } from "@/ui/InlineCode";

export function ModelList() {
  const strings = useStrings();
  const actions = useActions();
  const models = useModels();
  const current = useCurrentModel();
  if (models.phase === "failed") {
    return (
      <Section title={strings.models} anchor="models">
        <Fact name={strings.modelsUnavailable}>
          <Button onClick={models.reload}>{strings.tryAgain}</Button>
        </Fact>
      </Section>
    );
  }
  const fallback = models.phase === "ready" ? models.value.default : null;
  const known = models.phase === "ready" ? models.value.models : [];
  return (
    <Section title={strings.models} anchor="models">
      {known.map((model) => (
        <Fact
          key={model.name}
          name={
            <>
              <div className="flex flex-wrap items-center gap-2 font-medium">
                {modelName(model)}
                {model.name === fallback && <span className={CHIP}>{strings.modelDefault}</span>}
              </div>
              <div className="text-small text-faint">
                {model.scripted ? strings.modelScripted : model.model}
              </div>
              <ModelFacts model={model} />
            </>
          }
        >
          {model.name === current?.name ? (
            <span className="text-small text-done">{strings.modelInUse}</span>
          ) : (
            <Button onClick={() => actions.prefer({ model: model.name })}>{strings.modelUse}</Button>
          )}
        </Fact>
      ))}
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 px-4 py-3">
        <p className="flex min-w-0 flex-1 basis-72 gap-2 text-small text-pretty text-faint">
          <Info aria-hidden className="mt-0.5 size-3.5 shrink-0" />
          {strings.modelAddHint}
        </p>
        <Button
          primary
          className="inline-flex items-center gap-1"
          onClick={() => actions.connectModel({ connectionId: null })}
        >
          <Plus aria-hidden className="size-4" />
          {strings.modelAdd}
        </Button>
      </div>
    </Section>
  );
}

/** Key status and capabilities. */
function ModelFacts({ model }: { model: ModelInfo }) {
  const strings = useStrings();
  const { key = "unknown" } = model;
  const Icon = key === "missing" ? KeyRound : Check;
  const abilities = [
    model.supports_vision && strings.modelVision,
    model.supports_thinking && strings.modelThinking,
  ];
  return (
    <div className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1 text-small text-soft">
      {(key === "missing" || key === "set") && (
        <span className={`flex items-center gap-1 ${key === "missing" ? "text-warning" : "text-done"}`}>
          <Icon aria-hidden className="size-3.5" />
          {strings.modelKeys[key]}
        </span>
      )}
      {key !== "missing" && key !== "set" && !model.scripted && <span>{strings.modelKeys[key]}</span>}
      {abilities
        .filter((ability) => ability !== false)
        .map((ability) => (
          <span key={ability}>{ability}</span>
        ))}
      {key === "missing" && (
        <span className="basis-full text-faint">
          <InlineCode text={strings.modelKeyHint} />
        </span>
      )}
    </div>
  );
}

const CHIP = "rounded-full border border-line px-2 text-small font-normal text-soft";
