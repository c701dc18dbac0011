/** Status at the end of a conversation: working, stopped or failed. */

import { CircleAlert, CircleStop } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { type Strings, sentence } from "@/i18n/i18n";
import type { Message } from "@/run/message";
import { type Conversation, isActive, lastOwn, type RunError } from "@/run/reduce";
import { writesTodos } from "@/run/todos";
import { useActions, usePage } from "@/state/context";
import { Button } from "@/ui/Button";

export function RunNotice() {
  const strings = useStrings();
  const phase = usePage(({ conversation }) => conversation.run.phase);
  const waits = usePage(({ conversation }) => isActive(conversation.run) && waitsForModel(conversation));
  if (waits) return <Waiting label={strings.answering} />;
  if (phase === "failed") return <Failure />;
  if (phase !== "stopped") return null;
  return (
    <p className="flex items-center gap-2 text-small text-faint">
      <CircleStop aria-hidden className="size-4" />
      {strings.runStopped}
    </p>
  );
}

function Waiting({ label }: { label: string }) {
  return (
    <div className="flex h-6 items-center">
      <span className="sr-only">{label}</span>
      <span aria-hidden className="size-2 animate-breathe rounded-full bg-running" />
    </div>
  );
}

function Failure() {
  const strings = useStrings();
  const actions = useActions();
  const error = usePage(({ conversation }) => conversation.run.error);
  const untaken = usePage(({ conversation }) => conversation.run.id === null);
  const unsent = usePage(({ conversation: { unsent, order } }) => unsent.has(order.at(-1) ?? ""));
  const last = usePage(({ conversation }) => lastOwn(conversation)?.id);
  const hasOutput = usePage(({ conversation }) => lastOwn(conversation)?.id !== conversation.order.at(-1));
  // What the server did not accept was a message, or else a decision.
  const undecided = untaken && !unsent;
  const detail = detailOf(error, !untaken && hasOutput, strings) || (undecided ? strings.notDecidedHint : "");
  const headline = hasOutput ? strings.runFailed : strings.runFailedEarly;
  const again = () => (unsent ? actions.resend() : last !== undefined && actions.regenerate(last));
  return (
    <div
      role="alert"
      className="flex animate-appear items-center gap-3 rounded-box border border-error/40 bg-error-tint px-4 py-3"
    >
      <div className="min-w-0 flex-1">
        <p className="flex gap-2 font-medium text-error">
          <CircleAlert aria-hidden className="mt-0.5 size-4 shrink-0" />
          {undecided ? strings.notDecided : unsent ? notSent(error, strings) : headline}
        </p>
        {detail !== "" && <p className="mt-1 pl-6 text-soft [overflow-wrap:anywhere]">{detail}</p>}
      </div>
      {!undecided && <Button onClick={again}>{unsent ? strings.sendAgain : strings.tryAgain}</Button>}
    </div>
  );
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

/** Return the error's reason, translated where it is a known one, and whether output was kept. */
function detailOf(error: RunError | null, keptOutput: boolean, strings: Strings): string {
  const known: Readonly<Record<string, string>> = strings.reasons;
  const reason = error === null ? "" : (known[error.name] ?? sentence(error.message));
  if (keptOutput) return `${reason} ${strings.runFailedKept}`.trim();
  const isInHeadline = error?.name === "NetworkError" || error?.name === "Conflict";
  return isInHeadline ? "" : reason;
}

function notSent(error: RunError | null, strings: Strings): string {
  if (error?.name === "NetworkError") return strings.notSentUnreachable;
  return error?.name === "Conflict" ? strings.notSentBusy : strings.notSent;
}
