/** Collapsible reasoning. */

import { ChevronRight } from "lucide-react";
import { useState } from "react";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatDuration } from "@/i18n/format";
import { Markdown } from "@/markdown/Markdown";

interface Props {
  readonly text: string;
  readonly live: boolean;
  readonly durationMs: number | null;
}

// No duration is shown below this.
const WORTH_SAYING_MS = 1000;

export function Reasoning({ text, live, durationMs }: Props) {
  const strings = useStrings();
  const language = useLanguage();
  const [open, setOpen] = useState(false);
  const known = durationMs !== null && durationMs >= WORTH_SAYING_MS;
  const label = live
    ? strings.thinking
    : known
      ? strings.thoughtFor(formatDuration(Math.round(durationMs / 1000) * 1000, language))
      : strings.thought;
  return (
    <div className="text-ui">
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="-ml-1 flex h-7 items-center gap-1 rounded-box pr-2 text-faint hover:text-ink"
      >
        <ChevronRight aria-hidden className={`size-4 transition-transform ${open ? "rotate-90" : ""}`} />
        <span className={live ? "shimmer" : ""}>{label}</span>
      </button>
      {open && (
        <div className="mt-1 ml-[3px] animate-unfold border-l border-line pl-4 text-soft [&_.prose]:text-ui">
          <Markdown text={text} growing={live} />
        </div>
      )}
    </div>
  );
}
