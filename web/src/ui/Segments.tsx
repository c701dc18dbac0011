/** Segmented control. */

import { useId } from "react";

interface Props<Value extends string> {
  readonly label: string;
  readonly value: Value;
  readonly options: Readonly<Record<Value, string>>;
  readonly onChoose: (value: Value) => void;
}

export function Segments<Value extends string>({ label, value, options, onChoose }: Props<Value>) {
  const name = useId();
  return (
    <fieldset className="flex rounded-box border border-line-strong p-0.5">
      <legend className="sr-only">{label}</legend>
      {(Object.keys(options) as Value[]).map((option) => (
        <label
          key={option}
          className="flex h-7 cursor-pointer items-center rounded-[6px] px-3 text-soft has-checked:bg-tint-strong has-checked:text-ink has-focus-visible:outline-2 has-focus-visible:outline-accent hover:text-ink"
        >
          <input
            type="radio"
            name={name}
            checked={option === value}
            onChange={() => onChoose(option)}
            className="sr-only"
          />
          {options[option]}
        </label>
      ))}
    </fieldset>
  );
}
