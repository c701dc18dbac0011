/** A button with words on it. */

import type { ComponentProps } from "react";

export function Button({ className = "", ...rest }: ComponentProps<"button">) {
  return (
    <button
      type="button"
      className={`h-8 shrink-0 rounded-box border border-line-strong bg-raised px-3 text-ui font-medium hover:bg-tint disabled:opacity-50 ${className}`}
      {...rest}
    />
  );
}
