/** Toggle switch. */

interface Props {
  readonly on: boolean;
  readonly label: string;
  readonly disabled?: boolean;
  readonly onSwitch: (on: boolean) => void;
}

export function Switch({ on, label, disabled = false, onSwitch }: Props) {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={on}
      aria-label={label}
      disabled={disabled}
      onClick={() => onSwitch(!on)}
      className={`flex h-5 w-9 shrink-0 items-center rounded-full border p-0.5 disabled:opacity-50 ${
        on ? "justify-end border-accent bg-accent" : "border-line-strong bg-tint-strong"
      }`}
    >
      <span className={`size-3.5 rounded-full ${on ? "bg-on-accent" : "bg-faint"}`} />
    </button>
  );
}
