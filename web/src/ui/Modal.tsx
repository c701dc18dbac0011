/** Modal based on the native dialog element. */

import { type ReactNode, useEffect, useEffectEvent, useRef } from "react";

interface Props {
  readonly open: boolean;
  readonly label: string;
  readonly onClose: () => void;
  /** Position and size. */
  readonly className: string;
  readonly children: ReactNode;
}

export function Modal({ open, label, onClose, className, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);

  const notify = useEffectEvent(onClose);

  // A native modal traps focus, hides the rest from screen readers and restores focus.
  useEffect(() => {
    const shown = dialog.current;
    if (!open || shown === null) return;
    const onNativeClose = () => notify();
    shown.showModal();
    shown.addEventListener("close", onNativeClose);
    return () => {
      // The event comes later, when the dialog may be wanted again.
      shown.removeEventListener("close", onNativeClose);
      shown.close();
    };
  }, [open]);

  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already
    <dialog
      ref={dialog}
      aria-label={label}
      onClick={(event) => event.target === dialog.current && onClose()}
      className={`text-ink open:animate-appear backdrop:bg-scrim ${className}`}
    >
      {open && children}
    </dialog>
  );
}
