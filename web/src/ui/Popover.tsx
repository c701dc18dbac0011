/** Button that opens a card next to it. */

import { type ComponentProps, type ReactNode, useEffect, useRef, useState } from "react";

interface Props {
  readonly label: string;
  readonly trigger: (props: ComponentProps<"button">) => ReactNode;
  readonly align?: "start" | "end";
  /** Gets a function that closes the card. */
  readonly children: (close: () => void) => ReactNode;
}

export function Popover({ label, trigger, align = "end", children }: Props) {
  const [open, setOpen] = useState(false);
  const area = useRef<HTMLDivElement>(null);
  const close = () => {
    setOpen(false);
    area.current?.querySelector("button")?.focus();
  };
  useEffect(() => {
    if (!open) return;
    const leave = ({ target }: Event) => {
      if (!(target instanceof Node) || !area.current?.contains(target)) setOpen(false);
    };
    const closeOnEscape = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      // Escape also stops the run.
      event.preventDefault();
      event.stopImmediatePropagation();
      setOpen(false);
      area.current?.querySelector("button")?.focus();
    };
    document.addEventListener("pointerdown", leave);
    document.addEventListener("focusin", leave);
    document.addEventListener("keydown", closeOnEscape, true);
    return () => {
      document.removeEventListener("keydown", closeOnEscape, true);
      document.removeEventListener("pointerdown", leave);
      document.removeEventListener("focusin", leave);
    };
  }, [open]);
  return (
    <div ref={area} className="relative flex">
      {trigger({ "aria-expanded": open, "aria-haspopup": "dialog", onClick: () => setOpen(!open) })}
      {open && (
        <div
          role="dialog"
          aria-label={label}
          className={`absolute top-full z-30 mt-1.5 w-64 animate-appear rounded-box border border-line bg-raised p-3 text-ui shadow-float ${align === "end" ? "right-0" : "left-0"}`}
        >
          {children(close)}
        </div>
      )}
    </div>
  );
}
