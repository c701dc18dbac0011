/** Status at the end of a conversation: working, stopped or failed. */

import { CircleStop } from "lucide-react";
import { lazy, Suspense } from "react";
import { useStrings } from "@/i18n/context";
import type { Strings } from "@/i18n/i18n";
import type { ModelRetry } from "@/run/conversation";
import type { Message } from "@/run/message";
import { type Conversation, isActive } from "@/run/reduce";
import { writesTodos } from "@/run/todos";
import { usePage } from "@/state/context";
import { modelName, useCurrentModel, useModelName } from "@/state/models";
import { Elapsed } from "@/ui/Elapsed";

const RunFailure = lazy(() => import("@/features/chat/message/RunFailure"));

export function RunNotice() {
  const strings = useStrings();
  const phase = usePage(({ conversation }) => conversation.run.phase);
  const waits = usePage(({ conversation }) => isActive(conversation.run) && waitsForModel(conversation));
  if (waits) return <Waiting />;
  if (phase === "failed") {
    return (
      <Suspense>
        <RunFailure />
      </Suspense>
    );
  }
  if (phase !== "stopped") return null;
  return (
    <p className="flex items-center gap-2 text-small text-faint">
      <CircleStop aria-hidden className="size-4" />
      {strings.runStopped}
    </p>
  );
}

/** Says who is thinking, and for how long. */
function Waiting() {
  const strings = useStrings();
  const current = useCurrentModel();
  const started = useModelName(usePage(({ conversation }) => conversation.run.model));
  const retry = usePage(({ conversation }) => conversation.run.retry);
  const since = usePage(({ conversation: { order, settled } }) => settled.get(order.at(-1) ?? "")?.settledAt);
  const model = started ?? (current === null ? null : modelName(current));
  const words = model === null ? strings.isWorking : describeWaiting(model, retry, strings);
  return (
    <p
      className={`flex min-h-6 items-center gap-2 text-ui ${retry === null ? "text-faint" : "text-warning"}`}
    >
      <span className="sr-only">{strings.answering}</span>
      <span aria-hidden className="size-2 shrink-0 animate-breathe rounded-full bg-running" />
      <span aria-hidden className="shimmer">
        {words}
      </span>
      <Elapsed since={since ?? null} />
    </p>
  );
}

function describeWaiting(model: string, retry: ModelRetry | null, strings: Strings): string {
  if (retry === null) return strings.isThinking(model);
  const say = retry.reason === "rate_limited" ? strings.retryingSlower : strings.retrying;
  return say(model, retry.attempt, retry.maxAttempts);
}

/** Return true while waiting for the first token. */
function waitsForModel({ order, settled, streaming }: Conversation): boolean {
  const last = settled.get(order.findLast((id) => !streaming.has(id)) ?? "");
  if (last === undefined || last.question !== null) return false;
  return last.toolCalls.every(writesTodos) && [...streaming.values()].every(showsNothingNew);
}

/** The to-do list is shown further up. */
function showsNothingNew({ text, reasoning, toolCalls }: Message): boolean {
  return text === "" && reasoning === "" && toolCalls.every(writesTodos);
}
