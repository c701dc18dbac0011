/** Model picker. */

import { ChevronDown } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useActions } from "@/state/context";
import { modelName, useCurrentModel, useModels } from "@/state/models";
import { Button } from "@/ui/Button";
import { focusAfterChoice } from "@/ui/dom/composerFocus";
import { Menu, MenuChoice } from "@/ui/Menu";

export function ModelPicker() {
  const strings = useStrings();
  const actions = useActions();
  const models = useModels();
  const current = useCurrentModel();

  if (models.phase === "loading")
    return <span aria-hidden className="h-4 w-24 animate-breathe rounded-box bg-tint-strong" />;
  if (models.phase === "failed") return <Button onClick={models.reload}>{strings.reloadModels}</Button>;
  if (current === null) return <span className="px-2 text-small text-faint">{strings.noModel}</span>;
  return (
    <Menu
      side="top"
      movesFocus={focusAfterChoice}
      trigger={
        <button
          type="button"
          aria-label={`${strings.chooseModel}: ${modelName(current)}`}
          className="flex h-9 min-w-0 items-center gap-1 rounded-box px-2 text-small text-soft hover:bg-tint hover:text-ink"
        >
          <span className="truncate">{modelName(current)}</span>
          <ChevronDown aria-hidden className="size-3.5 shrink-0" />
        </button>
      }
    >
      <MenuChoice
        label={strings.model}
        value={current.name}
        options={models.value.models.map((model) => ({
          value: model.name,
          name: modelName(model),
          note: [
            model.key === "missing" && strings.modelKeys.missing,
            model.supports_thinking && strings.supportsReasoning,
            model.description,
          ]
            .filter(Boolean)
            .join(" · "),
        }))}
        onChoose={(model) => actions.prefer({ model })}
      />
    </Menu>
  );
}
