/** Virtualized, grouped thread list. */

import { useNavigate } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { type Group, groupThreads } from "@/features/threads/days";
import { ThreadRow } from "@/features/threads/ThreadRow";
import { useStrings } from "@/i18n/context";
import { useActions } from "@/state/context";
import { type Thread, useThreads } from "@/state/threadList";
import { Button } from "@/ui/Button";
import { focusComposer } from "@/ui/dom/composerFocus";
import { useMedia } from "@/ui/dom/useMedia";
import { EmptyState } from "@/ui/states";

interface Props {
  /** Title filter. */
  readonly wanted: string;
  readonly archived: boolean;
  /** Messages match the filter. */
  readonly hasHits: boolean;
  /** Content after the list. */
  readonly children: ReactNode;
}

export function Threads({ wanted, archived, hasHits, children }: Props) {
  const strings = useStrings();
  const actions = useActions();
  const [area, setArea] = useState<HTMLDivElement | null>(null);
  const navigate = useNavigate();
  const threads = useThreads();
  const listed = threads.phase === "ready" ? threads.value : NOTHING;
  const rows = useMemo(() => rowsOf(listed, wanted, archived), [listed, wanted, archived]);
  // Load more if no loaded thread is visible.
  useMoreAtEnd(threads.phase === "ready" && rows.length === 0);
  let body: ReactNode;
  if (threads.phase === "loading") body = <Skeleton />;
  else if (threads.phase === "failed") {
    body = (
      <div className="flex flex-col items-start gap-3 p-2 text-soft">
        <p>{strings.threadsUnavailable}</p>
        <Button onClick={() => void actions.refreshThreads()}>{strings.tryAgain}</Button>
      </div>
    );
  } else if (rows.length === 0) {
    const nothing = archived ? strings.noArchived : strings.noThreads;
    body =
      wanted === "" && !archived ? (
        <EmptyState text={nothing} small>
          <Button
            onClick={async () => {
              await navigate({ to: "/" });
              focusComposer();
            }}
          >
            {strings.startThread}
          </Button>
        </EmptyState>
      ) : hasHits ? null : (
        <p className="p-2 text-small text-faint">{wanted === "" ? nothing : strings.noMatchingTitles}</p>
      );
  } else body = <Rows rows={rows} area={area} />;
  return (
    <div ref={setArea} className="min-h-0 flex-1 overflow-y-auto px-3 pb-3">
      {body}
      {children}
    </div>
  );
}

const NOTHING: readonly Thread[] = [];

type Row =
  | { readonly kind: "heading"; readonly name: Group["name"] }
  | { readonly kind: "thread"; readonly thread: Thread };

const HEIGHT = { heading: 32, thread: 32 } as const;
const TOUCH_HEIGHT = { heading: 32, thread: 44 } as const;

/** Flat list of headings and threads. Threads of projects are in the folders of these, unless one searches. */
function rowsOf(threads: readonly Thread[], wanted: string, archived: boolean): readonly Row[] {
  const sought = wanted.trim().toLocaleLowerCase();
  const shown = threads.filter(
    (thread) =>
      thread.archived === archived &&
      (thread.projectId === null || archived || sought !== "") &&
      (thread.title ?? "").toLocaleLowerCase().includes(sought),
  );
  return groupThreads(shown, new Date()).flatMap((group): Row[] => [
    { kind: "heading", name: group.name },
    ...group.threads.map((thread): Row => ({ kind: "thread", thread })),
  ]);
}

function Rows({ rows, area }: { rows: readonly Row[]; area: HTMLDivElement | null }) {
  const strings = useStrings();
  const heights = useMedia("(pointer: coarse)") ? TOUCH_HEIGHT : HEIGHT;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => area,
    estimateSize: (index) => heights[rows[index]?.kind ?? "thread"],
    getItemKey: (index) => keyOf(rows[index]),
    overscan: 8,
  });
  const items = virtual.getVirtualItems();
  useMoreAtEnd((items.at(-1)?.index ?? 0) >= rows.length - 1);

  // biome-ignore lint/correctness/useExhaustiveDependencies: other rows have other heights
  useEffect(() => virtual.measure(), [rows, heights]);

  return (
    <ul style={{ height: virtual.getTotalSize() }} className="relative">
      {items.map(({ index, key, start, size }) => {
        const row = rows[index];
        if (row === undefined) return null;
        return (
          <li
            key={key}
            style={{ height: size, transform: `translateY(${start}px)` }}
            className="group absolute inset-x-0 top-0"
          >
            {row.kind === "heading" ? (
              <h2 className="flex h-full items-end px-2 pb-1 text-small text-faint">{strings[row.name]}</h2>
            ) : (
              <ThreadRow thread={row.thread} />
            )}
          </li>
        );
      })}
    </ul>
  );
}

function keyOf(row: Row | undefined): string {
  if (row === undefined) return "";
  return row.kind === "heading" ? row.name : row.thread.id;
}

/** Loads more threads when the end is visible. */
function useMoreAtEnd(atEnd: boolean): void {
  const actions = useActions();
  const threads = useThreads();
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was listed may leave the end in view
  useEffect(() => {
    if (atEnd) void actions.loadMoreThreads();
  }, [atEnd, threads.phase === "ready" ? threads.value : null, actions]);
}

function Skeleton() {
  return (
    <div aria-hidden className="flex animate-late flex-col gap-2 p-2">
      {["w-4/5", "w-3/5", "w-2/3", "w-1/2"].map((width) => (
        <div key={width} className={`h-5 animate-breathe rounded-box bg-tint-strong ${width}`} />
      ))}
    </div>
  );
}
