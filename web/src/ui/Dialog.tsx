/** Something in front of the page, until it is closed. */

import { type ReactNode, useEffect, useRef } from "react";

interface Props {
  readonly label: string;
  readonly onClose: () => void;
  readonly className?: string;
  readonly children: ReactNode;
}

export function Dialog({ label, onClose, className = "", children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);

  // A native modal keeps focus inside and gives it back by itself.
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);

  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already
    <dialog
      ref={dialog}
      aria-label={label}
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
      className={`m-auto flex-col rounded-box border border-line bg-raised p-0 text-ink shadow-float open:flex open:animate-appear backdrop:bg-scrim ${className}`}
    >
      {children}
    </dialog>
  );
}
