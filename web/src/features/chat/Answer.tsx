/** What the assistant said and did. */

import { usePage, useWords } from "@/app/context";
import { Reasoning } from "@/features/chat/Reasoning";
import { ToolCard } from "@/features/chat/ToolCard";
import type { ToolResults } from "@/features/chat/turns";
import { Markdown } from "@/markdown/Markdown";
import type { Message } from "@/run/message";
import { isActive } from "@/run/reduce";
import { CopyButton } from "@/ui/CopyButton";

interface Props {
  readonly message: Message;
  readonly growing: boolean;
  readonly results: ToolResults;
}

export function Answer({ message, growing, results }: Props) {
  const words = useWords();
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const hasText = message.text !== "";
  const thinks = growing && !hasText && message.toolCalls.length === 0;
  return (
    <article
      data-role="assistant"
      aria-busy={growing}
      className="group flex flex-col gap-3 [[data-role=assistant]+&]:-mt-3"
    >
      {message.reasoning !== "" && (
        <Reasoning text={message.reasoning} live={thinks} durationMs={message.thoughtMs} />
      )}
      {hasText && <Markdown text={message.text} growing={growing} />}
      {message.toolCalls.map((call) => {
        const result = results.get(call.id);
        return (
          <ToolCard
            key={call.index}
            call={call}
            result={result}
            running={active && result === undefined}
            calledAt={message.settledAt}
          />
        );
      })}
      {hasText && !growing && message.toolCalls.length === 0 && (
        <div className="-mt-2 -ml-2 h-8 opacity-0 transition-opacity group-hover:opacity-100 focus-within:opacity-100">
          <CopyButton text={message.text} label={words.copyAnswer} />
        </div>
      )}
    </article>
  );
}
