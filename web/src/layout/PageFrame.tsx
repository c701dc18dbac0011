/** Layout of a view with a title and a column. */

import type { ReactNode } from "react";
import { ListToggle } from "@/layout/ListToggle";
import { useTitle } from "@/layout/useTitle";
import { useTitleMark } from "@/state/useTitleMark";

interface Props {
  readonly title: string;
  /** Buttons for the whole view. */
  readonly actions?: ReactNode;
  /** Room for two columns instead of a reading column. */
  readonly isWide?: boolean;
  readonly children: ReactNode;
}

export function PageFrame({ title, actions, isWide = false, children }: Props) {
  useTitle(title, useTitleMark());
  return (
    <>
      <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-3">
        <ListToggle />
        <h1 className="min-w-0 truncate font-medium">{title}</h1>
        <div className="ml-auto flex shrink-0 items-center gap-2">{actions}</div>
      </header>
      <div className="min-h-0 flex-1 overflow-y-auto">
        <div className={`mx-auto w-full px-4 py-6 ${isWide ? "max-w-[68rem]" : "max-w-[46rem]"}`}>
          {children}
        </div>
      </div>
    </>
  );
}
