/** History of a skill, newest first, with diff and undo. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import { useState } from "react";
import type { SkillChange } from "@/api/skills";
import { Diff } from "@/features/skills/Diff";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { ErrorState, LoadingState } from "@/ui/states";

export function SkillHistory({ name, isReadOnly = false }: { name: string; isReadOnly?: boolean }) {
  const { skill: strings } = useStrings();
  const server = useServer();
  const history = useQuery({
    queryKey: ["skills", name, "history"],
    queryFn: () => server.skillHistory(name),
  });
  if (history.isPending) return <LoadingState />;
  if (history.isError) return <ErrorState text={strings.noHistory} onRetry={() => void history.refetch()} />;
  if (history.data.length === 0) return <p className="text-faint">{strings.unchanged}</p>;
  return (
    <ol aria-label={strings.history} className="divide-y divide-line rounded-box border border-line">
      {history.data
        .map((change) => (
          <Change key={change.history_index} name={name} change={change} isReadOnly={isReadOnly} />
        ))
        .reverse()}
    </ol>
  );
}

interface Props {
  readonly name: string;
  readonly change: SkillChange;
  readonly isReadOnly: boolean;
}

function Change({ name, change, isReadOnly }: Props) {
  const { skill: strings } = useStrings();
  const language = useLanguage();
  const [open, setOpen] = useState(false);
  const undone = useUndo(name, change.history_index);
  const undoable = !isReadOnly && change.action !== "create" && change.action !== "install";
  return (
    <li>
      <div className="flex items-center gap-2 px-3 py-2">
        <button
          type="button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
          className="flex min-w-0 flex-1 items-center gap-2 rounded-box text-left"
        >
          <ChevronRight
            aria-hidden
            className={`size-4 shrink-0 text-faint transition-transform ${open ? "rotate-90" : ""}`}
          />
          <span className="shrink-0">{strings.actions[change.action]}</span>
          <code className="min-w-0 truncate font-mono text-small text-soft">{change.file}</code>
          <time dateTime={change.at} className="ml-auto shrink-0 text-small text-faint">
            {formatMoment(change.at, language)}
          </time>
        </button>
        {undoable && (
          <Button disabled={undone.isPending} onClick={() => undone.mutate()}>
            {strings.undo}
          </Button>
        )}
      </div>
      {undone.isError && (
        <p role="alert" className="px-3 pb-2 text-small text-error">
          {sentence(undone.error.message)}
        </p>
      )}
      {open && (
        <div className="border-t border-line bg-rail p-3">
          <Author change={change} />
          <Diff text={change.diff} />
        </div>
      )}
    </li>
  );
}

function useUndo(name: string, index: number) {
  const server = useServer();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => server.undoSkillChange(name, index),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["skills"] }),
  });
}

function Author({ change: { author, thread_id: threadId } }: { change: SkillChange }) {
  const { skill: strings } = useStrings();
  return (
    <p className="mb-2 text-small text-soft">
      {author === "agent" ? strings.byAgent : strings.byYou}{" "}
      {threadId !== null && (
        <Link to="/threads/$threadId" params={{ threadId }} className="text-accent underline">
          {strings.inThread}
        </Link>
      )}
    </p>
  );
}
