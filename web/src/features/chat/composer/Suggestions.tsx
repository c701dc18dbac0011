/** Suggested follow-ups after a response. */

import { useEffect, useState } from "react";
import type { ChatMessage } from "@/api/files";
import { useStrings } from "@/i18n/context";
import { isOwn } from "@/run/message";
import { type Conversation, isAsking, isHere } from "@/run/reduce";
import { useActions, useFiles, usePage } from "@/state/context";
import { useCurrentModel } from "@/state/models";
import { useFeature } from "@/state/server";
import { focusComposer } from "@/ui/dom/composerFocus";

const MOST_MESSAGES = 6;
const MOST_CHARS = 4000;

export function Suggestions() {
  const strings = useStrings();
  const actions = useActions();
  const files = useFiles();
  const threadId = usePage((page) => page.threadId);
  const model = useCurrentModel()?.name ?? null;
  const conversation = usePage((page) => endedConversation(page.conversation));
  const offered = useFeature("suggestions");
  const runId = conversation?.run.id ?? null;
  const [found, setFound] = useState<{ runId: string | null; texts: readonly string[] } | null>(null);

  // biome-ignore lint/correctness/useExhaustiveDependencies: asked once for each run that has ended
  useEffect(() => {
    if (!offered || threadId === null || conversation === null || runId === null) return;
    let wanted = true;
    // Suggestions are optional; errors are ignored.
    files.suggestions(threadId, lastMessages(conversation), model).then(
      (texts) => wanted && setFound({ runId, texts }),
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [threadId, runId, offered]);

  if (runId === null || found?.runId !== runId || found.texts.length === 0) return null;
  return (
    <ul aria-label={strings.suggestions} className="mb-2 flex animate-appear flex-wrap gap-2">
      {found.texts.map((text) => (
        <li key={text} className="max-w-full">
          <button
            type="button"
            onClick={() => {
              focusComposer();
              void actions.send(text);
            }}
            className="min-h-8 max-w-full rounded-full border border-line px-3 py-1 text-left text-small text-soft hover:border-line-strong hover:bg-tint hover:text-ink"
          >
            {text}
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Return the messages if the last run has just ended without a question. */
function endedConversation(conversation: Conversation): Conversation | null {
  const { run, approval, rewoundRuns } = conversation;
  const over = run.phase === "done" && approval === null && rewoundRuns.size === 0;
  return over && !isAsking(conversation) ? conversation : null;
}

function lastMessages({ order, settled }: Conversation): readonly ChatMessage[] {
  const messages: ChatMessage[] = [];
  for (let place = order.length - 1; place >= 0 && messages.length < MOST_MESSAGES; place--) {
    const message = settled.get(order[place] ?? "");
    if (message === undefined || message.hidden || !isHere(message) || message.text === "") continue;
    if (message.role !== "user" && message.role !== "assistant") continue;
    messages.unshift({
      role: isOwn(message) ? "user" : "assistant",
      content: message.text.slice(0, MOST_CHARS),
    });
  }
  return messages;
}
