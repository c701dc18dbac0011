/** Choices of the command palette that match what is typed. */

import {
  Fragment,
  type KeyboardEvent,
  type RefObject,
  useEffect,
  useImperativeHandle,
  useRef,
  useState,
} from "react";
import { type Choice, useChoices } from "@/features/palette/choices";
import { useStrings } from "@/i18n/context";
import { usePaletteStrings } from "@/i18n/palette";

interface Props {
  readonly id: string;
  readonly wanted: string;
  /** Receives the handler of the keys pressed in the field. */
  readonly keys: RefObject<((event: KeyboardEvent) => void) | null>;
  /** Called with the id of the selected option. */
  readonly onActive: (id: string | undefined) => void;
  readonly onDone: () => void;
}

export default function ChoiceList({ id, wanted, keys, onActive, onDone }: Props) {
  const strings = useStrings();
  const { groups } = usePaletteStrings();
  const choices = useChoices(wanted);
  const [selected, setSelected] = useState({ wanted, at: 0 });
  // Another text selects the first choice.
  const current = Math.min(selected.wanted === wanted ? selected.at : 0, choices.length - 1);
  const active = choices.length > 0 ? `${id}-${current}` : undefined;
  useEffect(() => onActive(active), [active, onActive]);

  const choose = (choice: Choice | undefined) => {
    if (choice === undefined) return;
    onDone();
    choice.run();
  };
  useImperativeHandle(keys, () => (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setSelected({ wanted, at: (current + step + choices.length) % Math.max(choices.length, 1) });
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(choices[current]);
    }
  });

  return (
    <>
      {choices.length === 0 && <p className="px-4 py-3 text-faint">{strings.paletteEmpty}</p>}
      <div id={id} role="listbox" aria-label={strings.palette} className="max-h-[50vh] overflow-y-auto p-1">
        {choices.map((choice, index) => (
          <Fragment key={choice.id}>
            {choice.group !== choices[index - 1]?.group && (
              <div role="presentation" className="px-3 pt-2 pb-1 text-small font-medium text-faint">
                {groups[choice.group]}
              </div>
            )}
            <Option
              id={`${id}-${index}`}
              choice={choice}
              selected={index === current}
              onChoose={() => choose(choice)}
            />
          </Fragment>
        ))}
      </div>
    </>
  );
}

interface OptionProps {
  readonly id: string;
  readonly choice: Choice;
  readonly selected: boolean;
  readonly onChoose: () => void;
}

function Option({ id, choice: { icon: Icon, label, note, keys = [] }, selected, onChoose }: OptionProps) {
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (selected) row.current?.scrollIntoView({ block: "nearest" });
  }, [selected]);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
    <div
      ref={row}
      id={id}
      role="option"
      tabIndex={-1}
      aria-selected={selected}
      onClick={onChoose}
      className="flex min-h-9 cursor-pointer items-center gap-3 rounded-[6px] px-3 py-1 aria-selected:bg-tint hover:bg-tint"
    >
      <Icon aria-hidden className="size-4 shrink-0 text-faint" />
      <span className="min-w-0 flex-1 truncate">{label}</span>
      {note !== undefined && <span className="max-w-1/2 truncate text-small text-faint">{note}</span>}
      {keys.length > 0 && <kbd className="shrink-0 font-mono text-small text-faint">{keys.join("+")}</kbd>}
    </div>
  );
}
