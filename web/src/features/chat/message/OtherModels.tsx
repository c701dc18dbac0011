/** Menu of the models that are not in use. */

import { Cpu } from "lucide-react";
import type { ReactNode } from "react";
import { useActions } from "@/state/context";
import { modelName, useCurrentModel, useModels } from "@/state/models";
import { Menu, MenuItem } from "@/ui/Menu";

interface Props {
  /** Called when the chosen model is the one in use. */
  readonly onChosen: () => void;
  /** Opens the menu. */
  readonly children: ReactNode;
}

export function OtherModels({ onChosen, children }: Props) {
  const actions = useActions();
  const others = useOtherModels();
  if (others.length === 0) return null;
  return (
    <Menu align="end" trigger={children}>
      {others.map((model) => (
        <MenuItem
          key={model.name}
          icon={Cpu}
          label={modelName(model)}
          onChoose={() => {
            actions.prefer({ model: model.name });
            onChosen();
          }}
        />
      ))}
    </Menu>
  );
}

export function useOtherModels() {
  const models = useModels();
  const current = useCurrentModel();
  return models.phase === "ready" ? models.value.models.filter(({ name }) => name !== current?.name) : [];
}
