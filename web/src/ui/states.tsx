/** Loading, empty and error states. */

import { FileX } from "lucide-react";
import type { ReactNode } from "react";
import { useStrings } from "@/i18n/context";
import { Button } from "@/ui/Button";

export function LoadingState() {
  const strings = useStrings();
  return (
    <div role="status" aria-label={strings.loadingFile} className="flex animate-late flex-col gap-3 p-4">
      {["w-full", "w-11/12", "w-4/5", "w-2/5"].map((width) => (
        <div key={width} className={`h-5 animate-breathe rounded-box bg-tint ${width}`} />
      ))}
    </div>
  );
}

interface ErrorProps {
  readonly text: string;
  readonly onRetry?: (() => void) | undefined;
  /** Details and other ways to go on. */
  readonly children?: ReactNode;
}

export function ErrorState({ text, onRetry, children }: ErrorProps) {
  const strings = useStrings();
  return (
    <div className="m-auto flex max-w-80 flex-col items-center gap-3 p-6 text-center text-soft">
      <FileX aria-hidden className="size-6 text-faint" />
      <p>{text}</p>
      {children}
      {onRetry && <Button onClick={onRetry}>{strings.tryAgain}</Button>}
    </div>
  );
}

/** Nothing to show yet: a small drawing, one sentence, one button. */
interface EmptyProps {
  readonly text: string;
  /** In narrow places. */
  readonly small?: boolean;
  readonly children?: ReactNode;
}

export function EmptyState({ text, small = false, children }: EmptyProps) {
  return (
    <div
      className={`mx-auto flex max-w-80 flex-col items-center text-center text-soft ${small ? "gap-2 p-2 text-small" : "gap-3 p-6"}`}
    >
      <svg
        data-drawing
        aria-hidden="true"
        viewBox="0 0 96 64"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
        strokeLinecap="round"
        className={`shrink-0 text-line-strong ${small ? "h-8 w-12" : "h-16 w-24"}`}
      >
        <path d="M48 58V46c0-9-7-12-14-15S22 22 22 8" />
        <path d="M48 46c0-9 7-12 14-15s12-9 12-23" />
        <path d="M34 31c-8 0-15-3-18-12M23 20c-4-1-8-5-9-10M62 31c8 0 15-3 18-12M73 20c4-1 8-5 9-10" />
        <path d="M41 36c-2-4-2-9 1-14M55 36c2-4 2-9-1-14" />
      </svg>
      <p>{text}</p>
      {children}
    </div>
  );
}
