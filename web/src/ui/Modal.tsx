/** Something over the page that has to be dealt with, or left, before anything else. */

import { type ReactNode, useEffect, useRef } from "react";

interface Props {
  readonly open: boolean;
  readonly label: string;
  readonly onClose: () => void;
  /** Where it stands and how large it is. */
  readonly className: string;
  readonly children: ReactNode;
}

export function Modal({ open, label, onClose, className, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);

  // A native modal keeps focus inside, hides the rest from screen readers and gives focus back by itself.
  useEffect(() => {
    const shown = dialog.current;
    if (open) shown?.showModal();
    return () => shown?.close();
  }, [open]);

  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already
    <dialog
      ref={dialog}
      aria-label={label}
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
      className={`text-ink open:animate-appear backdrop:bg-scrim ${className}`}
    >
      {open && children}
    </dialog>
  );
}
