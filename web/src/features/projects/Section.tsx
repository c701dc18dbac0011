/** Titled parts of the project page. */

import type { ReactNode } from "react";

export function Problem({ text }: { text: string }) {
  return (
    <p role="alert" className="mb-2 text-small text-error [overflow-wrap:anywhere]">
      {text}
    </p>
  );
}

interface SectionProps {
  readonly title: string;
  readonly action?: ReactNode;
  readonly children: ReactNode;
}

export function Section({ title, action, children }: SectionProps) {
  return (
    <section aria-label={title}>
      <div className="mb-2 flex min-h-8 items-center justify-between gap-2">
        <h2 className="text-title font-semibold">{title}</h2>
        {action}
      </div>
      {children}
    </section>
  );
}
