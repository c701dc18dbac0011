/** Messages of the open thread. */

import { ArrowDown } from "lucide-react";
import { useEffect } from "react";
import { Entries } from "@/features/chat/Entries";
import { useStickToEnd } from "@/features/chat/useStickToEnd";
import { useStrings } from "@/i18n/context";
import { usePage } from "@/state/context";

interface Props {
  /** Opens at its beginning, to be read; others open at their end. */
  readonly fromStart?: boolean;
}

export function Conversation({ fromStart = false }: Props) {
  const strings = useStrings();
  const threadId = usePage((page) => page.threadId);
  const { area, setArea, content, atEnd, toEnd } = useStickToEnd(fromStart);
  const lastSent = usePage(({ conversation }) => conversation.run.phase === "starting");

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
            {area !== null && <Entries key={threadId} area={area} fromStart={fromStart} />}
          </section>
        </div>
      </div>
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
