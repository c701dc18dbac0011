/** Icon button. */

import type { LucideIcon } from "lucide-react";
import type { ComponentProps } from "react";

interface Props extends ComponentProps<"button"> {
  readonly label: string;
  readonly icon: LucideIcon;
  readonly large?: boolean;
}

export function IconButton({ label, icon: Icon, large = false, className = "", ...rest }: Props) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      className={`inline-flex ${large ? "size-9" : "size-8"} shrink-0 items-center justify-center rounded-box text-faint transition-opacity hover:bg-tint hover:text-ink disabled:opacity-50 ${className}`}
      {...rest}
    >
      <Icon aria-hidden className="size-4" />
    </button>
  );
}
