/** Text button. */

import type { ComponentProps } from "react";

interface Props extends ComponentProps<"button"> {
  /** Primary action. */
  readonly primary?: boolean;
}

export function Button({ primary = false, className = "", ...rest }: Props) {
  const look = primary
    ? "border-transparent bg-accent text-on-accent enabled:hover:bg-accent-strong"
    : "border-line-strong bg-raised enabled:hover:bg-tint";
  return (
    <button
      type="button"
      className={`h-8 shrink-0 rounded-box border px-3 text-ui font-medium disabled:opacity-50 ${look} ${className}`}
      {...rest}
    />
  );
}
