/** Messages of the open thread. */

import { ArrowDown } from "lucide-react";
import { lazy, Suspense, useEffect } from "react";
import { Entries } from "@/features/chat/Entries";
import { useStickToEnd } from "@/features/chat/useStickToEnd";
import { useStrings } from "@/i18n/context";
import { isActive } from "@/run/reduce";
import { usePage } from "@/state/context";
import { EmptyState } from "@/ui/states";

const AskAbout = lazy(() => import("@/features/chat/AskAbout"));

interface Props {
  /** Opens at its beginning, to be read; others open at their end. */
  readonly fromStart?: boolean;
}

export function Conversation({ fromStart = false }: Props) {
  const strings = useStrings();
  const threadId = usePage((page) => page.threadId);
  const { area, setArea, content, atEnd, toEnd } = useStickToEnd(fromStart);
  const lastSent = usePage(({ conversation }) => conversation.run.phase === "starting");

  const isEmpty = usePage(
    ({ conversation }) => conversation.order.length === 0 && !isActive(conversation.run),
  );

  // Scroll to the end after sending.
  useEffect(() => {
    if (lastSent) toEnd();
  }, [lastSent, toEnd]);

  return (
    <div className="relative min-h-0 flex-1">
      {/* The virtual list anchors the scroll position; browser anchoring would conflict. */}
      <div ref={setArea} className="h-full overflow-y-auto [overflow-anchor:none]" data-scroll-area>
        <div ref={content} className="mx-auto w-full max-w-[46rem] px-4 pb-6">
          <section aria-label={strings.conversation}>
            {/* Headings of answers are below it. */}
            <h2 className="sr-only">{strings.conversation}</h2>
            {isEmpty && (
              <div className="pt-16">
                <EmptyState text={strings.noMessages} />
              </div>
            )}
            {area !== null && <Entries key={threadId} area={area} fromStart={fromStart} />}
          </section>
        </div>
      </div>
      {!fromStart && (
        <Suspense>
          <AskAbout />
        </Suspense>
      )}
      {!atEnd && (
        <button
          type="button"
          onClick={toEnd}
          className="absolute bottom-3 left-1/2 flex h-8 -translate-x-1/2 animate-appear items-center gap-2 rounded-full border border-line bg-raised px-3 text-small text-soft shadow-float hover:text-ink"
        >
          <ArrowDown aria-hidden className="size-4" />
          {strings.jumpToLatest}
        </button>
      )}
    </div>
  );
}
