/** Centered modal dialog. */

import type { ReactNode } from "react";
import { Modal } from "@/ui/Modal";

interface Props {
  readonly label: string;
  readonly onClose: () => void;
  readonly className?: string;
  readonly children: ReactNode;
}

export function Dialog({ className = "", ...rest }: Props) {
  const sheet = "m-auto flex-col rounded-box border border-line bg-raised p-0 shadow-float open:flex";
  return <Modal open className={`${sheet} ${className}`} {...rest} />;
}
