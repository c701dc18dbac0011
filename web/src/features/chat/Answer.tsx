/** What the assistant said and did. */

import { usePage, useWords } from "@/app/context";
import { Checklist } from "@/features/chat/Checklist";
import { QuestionBlock } from "@/features/chat/QuestionBlock";
import { Reasoning } from "@/features/chat/Reasoning";
import { ToolCard } from "@/features/chat/ToolCard";
import type { Turns } from "@/features/chat/turns";
import { Markdown } from "@/markdown/Markdown";
import type { Message, ToolCall } from "@/run/message";
import { isActive } from "@/run/reduce";
import { writesTodos } from "@/run/todos";
import { CopyButton } from "@/ui/CopyButton";

interface Props {
  readonly message: Message;
  readonly growing: boolean;
  readonly turns: Turns;
}

export function Answer({ message, growing, turns }: Props) {
  const words = useWords();
  const hasText = message.text !== "";
  const thinks = growing && !hasText && message.toolCalls.length === 0;
  const calls = message.toolCalls.filter((call) => !isFolded(call, message, growing, turns));
  if (!hasText && message.reasoning === "" && calls.length === 0) return null;
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
      {calls.map((call) => (
        <Call key={call.index} call={call} calledAt={message.settledAt} growing={growing} turns={turns} />
      ))}
      {hasText && !growing && message.toolCalls.length === 0 && (
        <div className="-mt-2 -ml-2 h-8 opacity-0 transition-opacity group-hover:opacity-100 focus-within:opacity-100">
          <CopyButton text={message.text} label={words.copyAnswer} />
        </div>
      )}
    </article>
  );
}

/** Whether a call only goes on with a to-do list that has its place already. */
function isFolded(call: ToolCall, message: Message, growing: boolean, { checklists }: Turns): boolean {
  if (!writesTodos(call)) return false;
  if (!growing) return checklists.folded.has(call.id);
  return checklists.current !== null || message.toolCalls.find(writesTodos) !== call;
}

interface CallProps {
  readonly call: ToolCall;
  readonly calledAt: number | null;
  readonly growing: boolean;
  readonly turns: Turns;
}

function Call({ call, calledAt, growing, turns: { results, replies, checklists } }: CallProps) {
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const result = results.get(call.id);
  if (result?.question != null) {
    return <QuestionBlock question={result.question} reply={replies.get(call.id)} />;
  }
  const todos = checklists.shown.get(call.id) ?? (growing && writesTodos(call) ? [] : undefined);
  if (todos !== undefined) {
    return <Checklist todos={todos} current={growing || call.id === checklists.current} />;
  }
  return (
    <ToolCard call={call} result={result} running={active && result === undefined} calledAt={calledAt} />
  );
}
