/** An assistant message with its tool calls. */

import { lazy, Suspense, useMemo } from "react";
import { Checklist } from "@/features/chat/message/Checklist";
import { sourcesOf } from "@/features/chat/message/citations";
import { useFileActions } from "@/features/chat/message/FileActions";
import { AnswerActions } from "@/features/chat/message/MessageActions";
import { PresentedFiles } from "@/features/chat/message/PresentedFiles";
import { Reasoning } from "@/features/chat/message/Reasoning";
import { Versions } from "@/features/chat/message/Versions";
import { type CallState, ToolCard, ToolGroup } from "@/features/chat/tool/ToolCard";
import type { Turns } from "@/features/chat/turns";
import { Markdown } from "@/markdown/Markdown";
import type { Fork } from "@/run/branches";
import type { Message, ToolCall } from "@/run/message";
import { type Conversation, isActive } from "@/run/reduce";
import { writesTodos } from "@/run/todos";
import { presentedPaths, toolKind } from "@/run/toolCalls";
import { usePage } from "@/state/context";

const QuestionBlock = lazy(() => import("@/features/chat/approval/QuestionBlock"));
const Sources = lazy(() => import("@/features/chat/message/Sources"));

interface Props {
  readonly message: Message;
  readonly growing: boolean;
  readonly turns: Turns;
  readonly fork: Fork | undefined;
}

export function Answer({ message, growing, turns, fork }: Props) {
  const hasText = message.text !== "";
  const hasActions = hasText && !growing && message.toolCalls.length === 0;
  const thinks = growing && !hasText && message.toolCalls.length === 0;
  const sources = useMemo(() => (growing ? [] : sourcesOf(message.text)), [growing, message.text]);
  const approval = usePage(({ conversation }) => conversation.approval);
  const asked = approval?.requests.map(({ call }) => call.id) ?? [];
  const calls = message.toolCalls.filter(
    (call) => !isFolded(call, message, growing, turns) && !asked.includes(call.id),
  );
  if (!hasText && message.reasoning === "" && calls.length === 0) return null;
  return (
    <article
      data-role="assistant"
      data-message={message.id}
      aria-busy={growing}
      className="group flex flex-col gap-3"
    >
      {message.reasoning !== "" && (
        <Reasoning text={message.reasoning} live={thinks} durationMs={message.thoughtMs} />
      )}
      {hasText && <Markdown text={message.text} growing={growing} />}
      {calls.length > 0 && (
        // Steps stand on one thin line; what asks, files and errors have borders of their own.
        <div
          data-steps
          className="flex flex-col [&>:not([data-step])]:not-first:mt-3 [&>:not([data-step])]:not-last:mb-3"
        >
          {calls.map((call) => (
            <Call key={call.index} call={call} message={message} growing={growing} turns={turns} />
          ))}
        </div>
      )}
      {sources.length > 0 && (
        <Suspense>
          <Sources sources={sources} />
        </Suspense>
      )}
      {hasActions && <Changes message={message} turns={turns} />}
      {hasActions && <AnswerActions message={message} fork={fork} />}
      {!hasActions && fork !== undefined && <Versions fork={fork} />}
    </article>
  );
}

/** Files changed by the run of an answer; runs without tools changed none. */
function Changes({ message: { runId }, turns }: { message: Message; turns: Turns }) {
  const { ChangedFiles } = useFileActions();
  const threadId = usePage((page) => page.threadId);
  const { results } = turns;
  const usedTools = useMemo(
    () => runId !== null && [...results.values()].some((result) => result.runId === runId),
    [results, runId],
  );
  if (ChangedFiles === null || threadId === null || runId === null || !usedTools) return null;
  return <ChangedFiles threadId={threadId} runId={runId} />;
}

/** Return true if a call is shown elsewhere: in a to-do list, a group or the approval form. */
function isFolded(call: ToolCall, message: Message, growing: boolean, turns: Turns): boolean {
  const { checklists, groups, open } = turns;
  if (open.size > 1 && open.has(call.id)) return true;
  if (!writesTodos(call)) return groups.folded.has(call.id);
  if (!growing) return checklists.folded.has(call.id);
  return checklists.current !== null || message.toolCalls.find(writesTodos) !== call;
}

interface CallProps {
  readonly call: ToolCall;
  readonly message: Message;
  readonly growing: boolean;
  readonly turns: Turns;
}

function Call({ call, message, growing, turns }: CallProps) {
  const { results, replies, checklists, groups } = turns;
  const state = usePage(({ conversation }) => callState(conversation, message.id));
  const result = results.get(call.id);
  if (result?.question != null) {
    return (
      <Suspense>
        <QuestionBlock question={result.question} reply={replies.get(call.id)} />
      </Suspense>
    );
  }
  const todos = checklists.shown.get(call.id) ?? (growing && writesTodos(call) ? [] : undefined);
  if (todos !== undefined) {
    return <Checklist todos={todos} current={growing || call.id === checklists.current} />;
  }
  const group = groups.shown.get(call.id);
  if (group !== undefined) return <ToolGroup group={group} results={results} />;
  const card = <ToolCard call={call} result={result} state={state} caller={message} />;
  if (toolKind(call) !== "present" || result?.failed !== false) return card;
  return <PresentedFiles paths={presentedPaths(call)}>{card}</PresentedFiles>;
}

function callState({ run, approval }: Conversation, messageId: string): CallState {
  if (isActive(run)) return "running";
  return approval?.messageId === messageId ? "waiting" : "over";
}
