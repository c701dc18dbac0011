/** Virtualized list of conversation entries. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronRight } from "lucide-react";
import {
  lazy,
  memo,
  type ReactNode,
  Suspense,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { Answer } from "@/features/chat/message/Answer";
import { EarlierVersionNotice, SummaryLine } from "@/features/chat/message/EarlierVersionNotice";
import { RunNotice } from "@/features/chat/message/RunNotice";
import { UserMessage } from "@/features/chat/message/UserMessage";
import { type Fold, foldsOf, shownIds, summariesOf, type Turns, turnsOf } from "@/features/chat/turns";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatDuration, SHOWN_FROM_MS } from "@/i18n/format";
import { type Fork, selectBranch } from "@/run/branches";
import { isBlank } from "@/run/message";
import { findMessage, isActive } from "@/run/reduce";
import { useActions, usePage } from "@/state/context";
import { Button } from "@/ui/Button";

const QuestionForm = lazy(async () => ({
  default: (await import("@/features/chat/approval/QuestionForm")).QuestionForm,
}));
const ApprovalBlock = lazy(() => import("@/features/chat/approval/ApprovalBlock"));

// Initial estimate, replaced by the measured height.
const GUESSED_PX = 140;
const DRAWN_BESIDE = 8;
// Distance from the top at which the previous page is loaded.
const FETCH_WITHIN_PX = 2000;

export function Entries({ area, fromStart }: { area: HTMLDivElement; fromStart: boolean }) {
  const order = usePage(({ conversation }) => conversation.order);
  const settled = usePage(({ conversation }) => conversation.settled);
  const rewoundRuns = usePage(({ conversation }) => conversation.rewoundRuns);

  const { ids, forks } = useMemo(
    () => selectBranch({ order, settled }, rewoundRuns),
    [order, settled, rewoundRuns],
  );
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const approval = usePage(({ conversation }) => conversation.approval);
  const turns = useMemo(() => turnsOf({ order: ids, settled }), [ids, settled]);
  const folds = useMemo(() => foldsOf({ order: ids, settled }, turns, active), [ids, settled, turns, active]);
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(NONE_UNFOLDED);
  const shown = useMemo(() => {
    const hidden = new Set([...folds].flatMap(([first, fold]) => (unfolded.has(first) ? [] : [...fold.ids])));
    return shownIds({ order: ids, settled }).filter((id) => folds.has(id) || !hidden.has(id));
  }, [ids, settled, folds, unfolded]);
  const summaries = useMemo(() => summariesOf({ order: ids, settled }, shown), [ids, settled, shown]);
  const toggle = (id: string) => {
    const others = [...unfolded].filter((each) => each !== id);
    setUnfolded(new Set(unfolded.has(id) ? others : [...others, id]));
  };

  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => area,
    getItemKey: (index) => shown[index] ?? index,
    estimateSize: () => GUESSED_PX,
    overscan: DRAWN_BESIDE,
    // flushSync must not run during React's render.
    useFlushSync: false,
  });
  useScrollAnchor(area, shown, virtual, fromStart);
  const drawn = virtual.getVirtualItems();
  const above = drawn[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (drawn.at(-1)?.end ?? 0);

  return (
    <>
      <EarlierMessages area={area} />
      <div style={{ paddingTop: above, paddingBottom: below }}>
        {drawn.map(({ key, index }) => {
          const id = shown[index];
          if (id === undefined) return null;
          return (
            <div
              key={key}
              ref={virtual.measureElement}
              data-index={index}
              className="pt-6 empty:hidden [&:has(>[data-role=assistant])+&:has(>[data-role=assistant])]:pt-3 [&:has([data-steps]>[data-step]:last-child)+&:has(>*>[data-steps]:only-child>[data-step]:first-child)]:pt-0"
            >
              <FoldedEntry fold={folds.get(id)} open={unfolded.has(id)} onToggle={() => toggle(id)}>
                {summaries.has(id) && <SummaryLine notes={summaries.get(id) ?? ""} />}
                <Entry id={id} turns={turns} fork={forks.get(id)} />
              </FoldedEntry>
            </div>
          );
        })}
      </div>
      <div className="flex flex-col gap-6 pt-6 empty:hidden">
        <EarlierVersionNotice />
        {turns.open.size > 1 && (
          <Suspense>
            <QuestionForm key={[...turns.open.keys()].join()} questions={[...turns.open.values()]} />
          </Suspense>
        )}
        {approval !== null && (
          <Suspense>
            <ApprovalBlock approval={approval} />
          </Suspense>
        )}
        <RunNotice />
      </div>
    </>
  );
}

const NONE_UNFOLDED: ReadonlySet<string> = new Set();

interface FoldedEntryProps {
  readonly fold: Fold | undefined;
  readonly open: boolean;
  readonly onToggle: () => void;
  readonly children: ReactNode;
}

/** An entry; the first of a fold has the line that opens it. */
function FoldedEntry({ fold, open, onToggle, children }: FoldedEntryProps) {
  const strings = useStrings();
  const language = useLanguage();
  if (fold === undefined) return children;
  const { durationMs, steps } = fold;
  const took =
    durationMs !== null && durationMs >= SHOWN_FROM_MS
      ? formatDuration(Math.round(durationMs / 1000) * 1000, language)
      : null;
  return (
    <div data-role="assistant" className="flex flex-col gap-3">
      <button
        type="button"
        aria-expanded={open}
        onClick={onToggle}
        className="-ml-1 flex h-7 w-fit items-center gap-1 rounded-box pr-2 text-ui text-faint hover:text-ink"
      >
        <ChevronRight aria-hidden className={`size-4 transition-transform ${open ? "rotate-90" : ""}`} />
        {strings.worked(steps, took)}
      </button>
      {open && children}
    </div>
  );
}

/** Keeps the scroll position when entries are prepended. */
function useScrollAnchor(
  area: HTMLDivElement,
  shown: readonly string[],
  virtual: { measurementsCache: readonly { readonly start: number }[]; scrollOffset: number | null },
  fromStart: boolean,
): void {
  const last = useRef<{ readonly first: string | undefined; readonly length: number }>({
    first: undefined,
    length: 0,
  });
  useLayoutEffect(() => {
    const { first } = last.current;
    last.current = { first: shown[0], length: shown.length };
    if (first === undefined || first === shown[0]) return;
    // Opened at the beginning, which has been loaded now.
    if (fromStart && area.scrollTop === 0) return;
    const place = shown.indexOf(first);
    const before = virtual.measurementsCache[place]?.start;
    if (place > 0 && before !== undefined) area.scrollTop += before;
  }, [area, shown, virtual, fromStart]);
}

/** Loads the previous page when scrolled near. */
function EarlierMessages({ area }: { area: HTMLDivElement }) {
  const strings = useStrings();
  const actions = useActions();
  const { before, phase } = usePage(({ conversation }) => conversation.earlier);
  const mark = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (before === null || phase !== "idle" || mark.current === null) return;
    const near = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) void actions.loadEarlier();
      },
      { root: area, rootMargin: `${FETCH_WITHIN_PX}px 0px 0px 0px` },
    );
    near.observe(mark.current);
    return () => near.disconnect();
  }, [actions, area, before, phase]);

  if (before === null) return null;
  return (
    <div ref={mark} className="flex h-14 items-end justify-center">
      {phase === "loading" && (
        <span className="animate-breathe text-small text-faint">{strings.loadingEarlier}</span>
      )}
      {phase !== "loading" && (
        <Button onClick={() => void actions.loadEarlier()}>{strings.showEarlier}</Button>
      )}
    </div>
  );
}

interface EntryProps {
  readonly id: string;
  readonly turns: Turns;
  readonly fork: Fork | undefined;
}

/** Each entry subscribes to its own message only. */
const Entry = memo(function Entry({ id, turns, fork }: EntryProps) {
  const message = usePage(({ conversation }) => findMessage(conversation, id));
  const growing = usePage(({ conversation }) => conversation.streaming.has(id));
  const unsent = usePage(({ conversation }) => conversation.unsent.has(id));
  if (message === undefined) return null;
  if (message.role === "user") return <UserMessage message={message} unsent={unsent} fork={fork} />;
  if (isBlank(message)) return null;
  return <Answer message={message} growing={growing} turns={turns} fork={fork} />;
});
