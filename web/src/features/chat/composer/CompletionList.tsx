/** Completion list of a mention. */

import { FileText, GraduationCap, SquareSlash } from "lucide-react";
import { useEffect, useRef } from "react";
import type { Candidate, Mention } from "@/features/chat/composer/completion";
import { useStrings } from "@/i18n/context";

export const COMPLETION_LIST_ID = "composer-completion";
export const completionOptionId = (index: number) => `${COMPLETION_LIST_ID}-${index}`;

interface Props {
  readonly kind: Mention["kind"];
  readonly candidates: readonly Candidate[];
  readonly current: number;
  readonly onChoose: (candidate: Candidate) => void;
}

export function CompletionList({ kind, candidates, current, onChoose }: Props) {
  const strings = useStrings();
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.children[current]?.scrollIntoView({ block: "nearest" });
  }, [current]);
  return (
    <div
      ref={list}
      id={COMPLETION_LIST_ID}
      role="listbox"
      aria-label={{ skill: strings.skills, model: strings.models, file: strings.files }[kind]}
      className="mb-2 max-h-60 animate-appear overflow-y-auto rounded-box border border-line bg-raised p-1 shadow-float"
    >
      {candidates.map((candidate, index) => (
        <div
          key={candidate.id}
          id={completionOptionId(index)}
          role="option"
          aria-selected={index === current}
          tabIndex={-1}
          // Keep focus in the text field.
          onMouseDown={(event) => {
            event.preventDefault();
            onChoose(candidate);
          }}
          className={`flex min-h-8 cursor-pointer items-center gap-2 rounded-[6px] px-2 py-1 ${index === current ? "bg-tint" : ""}`}
        >
          <Sign kind={kind} isCommand={candidate.isCommand} />
          <span className="shrink-0">{candidate.label}</span>
          <span className="min-w-0 truncate text-small text-faint">{candidate.note}</span>
        </div>
      ))}
    </div>
  );
}

function Sign({ kind, isCommand = false }: { kind: Mention["kind"]; isCommand?: boolean | undefined }) {
  const Icon = isCommand ? SquareSlash : kind === "skill" ? GraduationCap : FileText;
  return <Icon aria-hidden className="size-4 shrink-0 text-faint" />;
}
