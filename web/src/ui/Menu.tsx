/** Dropdown menus based on Radix. */

import * as Radix from "@radix-ui/react-dropdown-menu";
import { Check, type LucideIcon } from "lucide-react";
import { type ReactNode, useRef, useState } from "react";

interface MenuProps {
  readonly trigger: ReactNode;
  readonly side?: "top" | "bottom";
  readonly align?: "start" | "end";
  /** Called when the menu has closed; true if focus is not to return to the trigger. */
  readonly movesFocus?: (hasChosen: boolean) => boolean;
  readonly children: ReactNode;
}

export function Menu({ trigger, side = "bottom", align = "start", movesFocus, children }: MenuProps) {
  const hasChosen = useRef(false);
  // Found when the menu opens: with another container an open menu would be mounted again, and close.
  const [container, setContainer] = useState<Element | null>(null);
  return (
    // Not modal: Radix locks scrolling with an inline style, which the CSP forbids.
    <Radix.Root modal={false} onOpenChange={(opens) => opens && setContainer(document.querySelector("main"))}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      {/* Inside a landmark, as all content of the page. */}
      <Radix.Portal container={container}>
        <Radix.Content
          side={side}
          align={align}
          sideOffset={6}
          collisionPadding={8}
          onClick={() => {
            hasChosen.current = true;
          }}
          onCloseAutoFocus={(event) => {
            if (movesFocus?.(hasChosen.current)) event.preventDefault();
            hasChosen.current = false;
          }}
          className="z-30 max-h-(--radix-dropdown-menu-content-available-height) w-72 animate-appear overflow-y-auto rounded-box border border-line bg-raised p-1 shadow-float"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly {
    readonly value: string;
    readonly name: string;
    readonly note?: string | null;
  }[];
  readonly onChoose: (value: string) => void;
}

/** Radio group. */
export function MenuChoice({ label, value, options, onChoose }: ChoiceProps) {
  return (
    <Radix.RadioGroup value={value} onValueChange={onChoose} aria-label={label}>
      <Radix.Label className="px-2 pt-2 pb-1 text-small text-faint">{label}</Radix.Label>
      {options.map((option) => (
        <Radix.RadioItem key={option.value} value={option.value} className={ITEM}>
          <span className="min-w-0">
            <span className="block truncate">{option.name}</span>
            {option.note && <span className="block text-small text-faint">{option.note}</span>}
          </span>
          <Mark />
        </Radix.RadioItem>
      ))}
    </Radix.RadioGroup>
  );
}

interface SwitchProps {
  readonly label: string;
  readonly on: boolean;
  readonly onSwitch: (on: boolean) => void;
}

/** Checkbox item. */
export function MenuSwitch({ label, on, onSwitch }: SwitchProps) {
  return (
    <Radix.CheckboxItem checked={on} onCheckedChange={onSwitch} className={ITEM}>
      {label}
      <Mark />
    </Radix.CheckboxItem>
  );
}

interface ItemProps {
  readonly icon: LucideIcon;
  readonly label: string;
  readonly onChoose: () => void;
}

/** Action item. */
export function MenuItem({ icon: Icon, label, onChoose }: ItemProps) {
  return (
    <Radix.Item onSelect={onChoose} className={ITEM}>
      <Icon aria-hidden className="size-4 shrink-0 text-faint" />
      {label}
    </Radix.Item>
  );
}

export function MenuLine() {
  return <Radix.Separator className="mx-1 my-1 h-px bg-line" />;
}

function Mark() {
  return (
    <Radix.ItemIndicator className="ml-auto">
      <Check aria-hidden className="size-4 text-accent" />
    </Radix.ItemIndicator>
  );
}

const ITEM =
  "flex min-h-8 cursor-pointer items-center gap-2 rounded-[6px] px-2 py-1 text-ui outline-none select-none data-[highlighted]:bg-tint";
