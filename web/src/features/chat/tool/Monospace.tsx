/** Labelled monospace text. */

import type { ReactNode } from "react";

interface Props {
  readonly label: string;
  /** Path shown with the label. */
  readonly note?: string;
  readonly text?: string;
  /** Keeps the end in view while output streams. */
  readonly grows?: boolean;
  readonly children?: ReactNode;
}

export function Monospace({ label, note = "", text, grows = false, children }: Props) {
  return (
    <div className="text-small">
      <div className="mb-1 text-faint">{label}</div>
      {note !== "" && <div className="mb-1 font-mono text-soft [overflow-wrap:anywhere]">{note}</div>}
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: long output must be scrollable by keyboard
        tabIndex={0}
        className={`max-h-[20lh] overflow-auto font-mono whitespace-pre-wrap [overflow-wrap:anywhere] ${
          grows ? "flex flex-col-reverse" : ""
        }`}
      >
        {grows ? <div>{text}</div> : text}
        {children}
      </pre>
    </div>
  );
}
