/** The messages of the open thread. */

import { ArrowDown } from "lucide-react";
import { memo, useEffect, useMemo, useState } from "react";
import { flushSync } from "react-dom";
import { usePage, useWords } from "@/app/context";
import { Answer } from "@/features/chat/Answer";
import { ApprovalBlock } from "@/features/chat/ApprovalBlock";
import { RunNotice } from "@/features/chat/RunNotice";
import { shownIds, type Turns, turnsOf } from "@/features/chat/turns";
import { UserMessage } from "@/features/chat/UserMessage";
import { useStickToEnd } from "@/features/chat/useStickToEnd";
import { isBlank } from "@/run/message";
import { findMessage } from "@/run/reduce";

// Entries drawn at first and added each time the reader asks for more: a day-long thread opens as fast as a short one.
const PAGE_OF_ENTRIES = 80;

export function Conversation() {
  const words = useWords();
  const threadId = usePage((page) => page.threadId);
  const { area, content, atEnd, toEnd } = useStickToEnd();
  const lastSent = usePage(({ conversation }) => conversation.run.phase === "starting");

  // Whoever sends wants to see the answer, wherever they were reading.
  useEffect(() => {
    if (lastSent) toEnd();
  }, [lastSent, toEnd]);

  return (
    <div className="relative min-h-0 flex-1">
      <div ref={area} className="h-full overflow-y-auto" data-scroll-area>
        <div ref={content} className="mx-auto w-full max-w-[46rem] px-4 py-6">
          <section aria-label={words.conversation} className="flex flex-col gap-6">
            <Entries key={threadId} />
            <ApprovalBlock />
            <RunNotice />
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
          {words.jumpToLatest}
        </button>
      )}
    </div>
  );
}

function Entries() {
  const words = useWords();
  const order = usePage(({ conversation }) => conversation.order);
  const settled = usePage(({ conversation }) => conversation.settled);
  const [pages, setPages] = useState(1);

  const ids = useMemo(() => shownIds({ order, settled }), [order, settled]);
  const turns = useMemo(() => turnsOf({ order, settled }), [order, settled]);
  const first = Math.max(0, ids.length - pages * PAGE_OF_ENTRIES);

  return (
    <>
      {first > 0 && (
        <button
          type="button"
          onClick={(event) => keepingPlace(event.currentTarget, () => setPages(pages + 1))}
          className="mx-auto h-8 rounded-full border border-line px-3 text-small text-soft hover:bg-tint hover:text-ink"
        >
          {words.showEarlier}
        </button>
      )}
      {ids.slice(first).map((id) => (
        <Entry key={id} id={id} turns={turns} />
      ))}
    </>
  );
}

/** Lets content grow above the reader without moving what they read. */
function keepingPlace(inside: Element, grow: () => void): void {
  const area = inside.closest("[data-scroll-area]");
  const fromEnd = area === null ? 0 : area.scrollHeight - area.scrollTop;
  flushSync(grow);
  if (area !== null) area.scrollTop = area.scrollHeight - fromEnd;
}

/** One entry listens to its own message alone. */
const Entry = memo(function Entry({ id, turns }: { id: string; turns: Turns }) {
  const message = usePage(({ conversation }) => findMessage(conversation, id));
  const growing = usePage(({ conversation }) => conversation.streaming.has(id));
  const unsent = usePage(({ conversation }) => conversation.unsent.has(id));
  if (message === undefined) return null;
  if (message.role === "user") return <UserMessage message={message} unsent={unsent} />;
  if (isBlank(message)) return null;
  return <Answer message={message} growing={growing} turns={turns} />;
});
