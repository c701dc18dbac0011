/** Buttons at selected text of an answer: ask about it beside the thread, or quote it in the composer. */

import { MessageCircleQuestionMark, MessageSquareQuote } from "lucide-react";
import { lazy, Suspense, useEffect, useState } from "react";
import { quoted } from "@/features/chat/quoted";
import { useWorkspaceParts } from "@/i18n/workspaceParts";
import { useActions, usePage } from "@/state/context";
import { currentDraft } from "@/state/page";
import { focusComposer } from "@/ui/dom/composerFocus";

const Aside = lazy(() => import("@/features/chat/Aside"));

interface Selected {
  readonly text: string;
  readonly messageId: string;
  readonly top: number;
  readonly left: number;
}

const BUTTONS_PX = 260;
const BUTTON = "flex h-8 items-center gap-2 px-3 text-ui font-medium hover:bg-tint";

export default function AskAbout() {
  const strings = useWorkspaceParts();
  const actions = useActions();
  const threadId = usePage((page) => page.threadId);
  const settled = usePage(({ conversation }) => conversation.settled);
  const draft = usePage(currentDraft);
  const [selected, setSelected] = useState<Selected | null>(null);
  const [asked, setAsked] = useState<{ readonly threadId: string; readonly about: Selected } | null>(null);

  useEffect(() => {
    const update = () => setSelected(selectedAnswer());
    // The buttons follow no scrolling.
    const hide = () => setSelected(null);
    document.addEventListener("selectionchange", update);
    document.addEventListener("scroll", hide, true);
    return () => {
      document.removeEventListener("selectionchange", update);
      document.removeEventListener("scroll", hide, true);
    };
  }, []);

  const unselect = () => {
    window.getSelection()?.removeAllRanges();
    setSelected(null);
  };
  return (
    <>
      {selected !== null && (
        <div
          style={{
            top: Math.max(selected.top - 40, 8),
            left: Math.max(8, Math.min(selected.left, window.innerWidth - BUTTONS_PX)),
          }}
          className="fixed z-30 flex animate-appear divide-x divide-line overflow-hidden rounded-box border border-line bg-raised shadow-float"
        >
          <button
            type="button"
            // Keeps the selection until the click.
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => {
              if (threadId !== null) setAsked({ threadId, about: selected });
              unselect();
            }}
            className={BUTTON}
          >
            <MessageCircleQuestionMark aria-hidden className="size-4 text-accent" />
            {strings.askAbout}
          </button>
          <button
            type="button"
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => {
              actions.draft(quoted(selected.text, draft));
              unselect();
              focusComposer();
            }}
            className={BUTTON}
          >
            <MessageSquareQuote aria-hidden className="size-4 text-faint" />
            {strings.quote}
          </button>
        </div>
      )}
      {asked !== null && asked.threadId === threadId && (
        <Suspense>
          <Aside
            key={`${asked.about.messageId} ${asked.about.text}`}
            threadId={threadId}
            runId={settled.get(asked.about.messageId)?.runId ?? null}
            quote={asked.about.text}
            onClose={() => setAsked(null)}
          />
        </Suspense>
      )}
    </>
  );
}

/** Return the selected text if it is inside one answer. */
function selectedAnswer(): Selected | null {
  const selection = window.getSelection();
  if (selection === null || selection.isCollapsed || selection.rangeCount === 0) return null;
  const range = selection.getRangeAt(0);
  const text = selection.toString().trim();
  const prose = (node: Node) =>
    (node instanceof Element ? node : node.parentElement)?.closest("[data-role=assistant] .prose");
  const start = prose(range.startContainer);
  if (text === "" || !start || prose(range.commonAncestorContainer) !== start) return null;
  const { top, left } = range.getBoundingClientRect();
  const messageId = start.closest<HTMLElement>("[data-message]")?.dataset.message ?? "";
  return { text, messageId, top, left };
}
