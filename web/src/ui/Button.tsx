/** Text button. */

import type { ComponentProps } from "react";

interface Props extends ComponentProps<"button"> {
  /** Primary action. */
  readonly primary?: boolean;
}

export function Button({ primary = false, className = "", ...rest }: Props) {
  return <button type="button" className={`${buttonLook(primary)} ${className}`} {...rest} />;
}

/** Return the look of a button, also for links. */
export function buttonLook(primary = false): string {
  const colours = primary
    ? "border-transparent bg-accent text-on-accent not-disabled:hover:bg-accent-strong"
    : "border-line-strong bg-raised not-disabled:hover:bg-tint";
  return `inline-flex h-8 shrink-0 items-center justify-center rounded-box border px-3 text-ui font-medium disabled:opacity-50 ${colours}`;
}
