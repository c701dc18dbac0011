/** Group of settings. */

import { type ReactNode, useId } from "react";

interface SectionProps {
  readonly title: string;
  /** Anchor in the address. */
  readonly anchor?: string;
  readonly children: ReactNode;
}

export function Section({ title, anchor, children }: SectionProps) {
  const id = useId();
  return (
    <section id={anchor} aria-labelledby={id} className="scroll-mt-6">
      <h2 id={id} className="mb-2 text-title font-semibold">
        {title}
      </h2>
      <div className="divide-y divide-line rounded-box border border-line">{children}</div>
    </section>
  );
}

export function Fact({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <div className="flex min-h-12 flex-wrap items-center justify-between gap-x-4 gap-y-1 px-4 py-2">
      <div className="min-w-0 flex-1 basis-1/3">{name}</div>
      {children}
    </div>
  );
}
