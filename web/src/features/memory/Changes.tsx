/** History of a memory, newest first, with undo. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Undo2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import type { FactDetails, MemoryChange, SummaryKey, SummaryText } from "@/api/memory";
import { formatPercent } from "@/features/memory/FactForm";
import { short } from "@/features/memory/FactRow";
import { ThreadLink } from "@/features/memory/ThreadLink";
import { useShown, useUndo } from "@/features/memory/useMemory";
import { useLanguage } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { memoryKey } from "@/state/queries";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { IconButton } from "@/ui/IconButton";
import { RelativeTime } from "@/ui/RelativeTime";
import { ErrorState, LoadingState } from "@/ui/states";

const PAGE = 50;

export function Changes({ onAsOf }: { onAsOf: (moment: string) => void }) {
  const strings = useMemoryStrings();
  const { of } = useShown();
  const server = useServer();
  const history = useInfiniteQuery({
    queryKey: [...memoryKey(of), "history"],
    queryFn: ({ pageParam }) => server.memoryHistory(of, PAGE, pageParam),
    initialPageParam: null as number | null,
    getNextPageParam: ({ next_before }) => next_before,
  });
  if (history.isPending) return <LoadingState />;
  if (history.isError) return <ErrorState text={strings.noHistory} onRetry={() => void history.refetch()} />;
  const groups = grouped(history.data.pages.flatMap(({ changes }) => changes));
  if (groups.length === 0) return <p className="text-faint">{strings.unchanged}</p>;
  return (
    <div className="flex flex-col gap-4">
      <AsOf onAsOf={onAsOf} />
      <ol aria-label={strings.views.history} className="divide-y divide-line rounded-box border border-line">
        {groups.map((changes) => (
          <Group key={`${changes[0].group} ${changes[0].seq}`} changes={changes} />
        ))}
      </ol>
      {history.hasNextPage && (
        <Button
          className="self-start"
          disabled={history.isFetchingNextPage}
          onClick={() => void history.fetchNextPage()}
        >
          {strings.older}
        </Button>
      )}
    </div>
  );
}

/** Changes of one operation. */
type Done = readonly [MemoryChange, ...MemoryChange[]];

export function grouped(changes: readonly MemoryChange[]): readonly Done[] {
  const groups: [MemoryChange, ...MemoryChange[]][] = [];
  for (const change of changes) {
    const last = groups.at(-1);
    if (last?.[0].group === change.group) last.push(change);
    else groups.push([change]);
  }
  return groups;
}

function AsOf({ onAsOf }: { onAsOf: (moment: string) => void }) {
  const strings = useMemoryStrings();
  const show = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const chosen = new Date(String(new FormData(event.currentTarget).get("moment")));
    if (!Number.isNaN(chosen.getTime())) onAsOf(chosen.toISOString());
  };
  return (
    <form onSubmit={show} className="flex flex-wrap items-center gap-2 text-soft">
      <label className="flex flex-wrap items-center gap-2">
        {strings.asOf}
        <input
          type="datetime-local"
          name="moment"
          step={1}
          required
          className="h-8 rounded-box border border-line-strong bg-raised px-2 text-ink"
        />
      </label>
      <Button type="submit">{strings.show}</Button>
    </form>
  );
}

const AT_ONCE = 8;

function Group({ changes }: { changes: Done }) {
  const strings = useMemoryStrings();
  const { of } = useShown();
  const undoing = useUndo();
  const [all, setAll] = useState(false);
  const [newest] = changes;
  const several = changes.length > 1;
  const shown = all ? changes : changes.slice(0, AT_ONCE);
  const threadId = newest.source?.thread_id ?? null;
  const undone = useUndoLabel(newest);
  return (
    <li className="flex flex-col gap-2 px-4 py-3">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <span className="font-medium">{strings.actors[newest.actor]}</span>
        <span className="text-small text-faint">
          <RelativeTime at={newest.at} />
          {threadId !== null && (
            <>
              {" · "}
              {strings.fromThread} <ThreadLink threadId={threadId} />
            </>
          )}
          {" · "}
          <Link
            to="/memory"
            search={{ as_of: newest.at, ...(of === null ? {} : { agent: of }) }}
            className="underline underline-offset-2 hover:text-ink"
          >
            {strings.viewAtTime}
          </Link>
        </span>
        <Button
          className="ml-auto"
          disabled={undoing.isPending}
          aria-label={several ? undefined : strings.undoThis(undone)}
          onClick={() => undoing.mutate({ group: newest.group })}
        >
          {several ? strings.undoAll(changes.length) : strings.undo}
        </Button>
      </div>
      <ul className="flex flex-col gap-2">
        {shown.map((change) => (
          <Change
            key={change.change_id}
            change={change}
            onUndo={several ? () => undoing.mutate({ change_id: change.change_id }) : null}
          />
        ))}
      </ul>
      {shown.length < changes.length && (
        <Button className="self-start" onClick={() => setAll(true)}>
          {strings.andMore(changes.length - shown.length)}
        </Button>
      )}
      {undoing.isError && (
        <p role="alert" className="text-small text-error">
          {strings.notUndone} {sentence(undoing.error.message)}
        </p>
      )}
    </li>
  );
}

interface ChangeProps {
  readonly change: MemoryChange;
  readonly onUndo: (() => void) | null;
}

function Change({ change, onUndo }: ChangeProps) {
  const strings = useMemoryStrings();
  const name = strings.summaryNames[change.target as SummaryKey];
  const label = useUndoLabel(change);
  return (
    <li className="flex items-start gap-2 text-small">
      <div className="min-w-0 flex-1">
        <p className="text-soft">
          {strings.actions[change.kind]}
          {name !== undefined && ` · ${name}`}
        </p>
        <Side known={change.before} sign="-" />
        <Side known={change.after} sign="+" />
      </div>
      {onUndo !== null && <IconButton icon={Undo2} label={strings.undoThis(label)} onClick={onUndo} />}
    </li>
  );
}

/** Return the label of a change for undo. */
function useUndoLabel({ kind, before, after }: MemoryChange): string {
  const strings = useMemoryStrings();
  return `${strings.actions[kind]} “${short(textOf(after ?? before))}”`;
}

type MemoryValue = FactDetails | SummaryText | null;

function textOf(known: MemoryValue): string {
  if (known === null) return "";
  return "content" in known ? known.content : known.summary;
}

const LOOKS = { "-": "bg-error-tint text-error", "+": "bg-done-tint text-done" } as const;

function Side({ known, sign }: { known: MemoryValue; sign: "-" | "+" }) {
  const strings = useMemoryStrings();
  const language = useLanguage();
  if (known === null || textOf(known) === "") return null;
  const sure = "content" in known ? strings.confidenceLabel(formatPercent(known.confidence, language)) : "";
  const details = "content" in known ? ` (${strings.kinds[known.category]}, ${sure})` : "";
  return (
    <p
      className={`flex gap-2 rounded-[4px] px-2 py-0.5 whitespace-pre-wrap [overflow-wrap:anywhere] ${LOOKS[sign]}`}
    >
      <span aria-hidden className="font-mono">
        {sign}
      </span>
      <span className="sr-only">{sign === "-" ? strings.before : strings.after}</span>
      <span>
        {textOf(known)}
        {details}
      </span>
    </p>
  );
}
