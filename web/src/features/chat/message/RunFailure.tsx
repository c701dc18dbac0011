/** What went wrong with a run, and what to do about it. */

import { Link } from "@tanstack/react-router";
import { CircleAlert } from "lucide-react";
import { OtherModels } from "@/features/chat/message/OtherModels";
import { useStrings } from "@/i18n/context";
import { useFailureStrings } from "@/i18n/failures";
import { type Strings, sentence } from "@/i18n/i18n";
import { isBlank } from "@/run/message";
import { type Conversation, findMessage, isHere, lastOwn, type RunError } from "@/run/reduce";
import { useActions, useIsReader, usePage } from "@/state/context";
import { modelName, useCurrentModel, useModelName } from "@/state/models";
import { Button, buttonLook } from "@/ui/Button";

type FailureStrings = ReturnType<typeof useFailureStrings>;
type ModelFault = keyof FailureStrings["runErrors"];

/** Remedies of an error, the most useful first. */
type Remedy = "settings" | "key" | "model" | "again" | "summarize";

const REMEDIES: Readonly<Record<ModelFault, readonly Remedy[]>> = {
  ModelKeyRejected: ["key", "model", "again"],
  ModelQuotaExceeded: ["model", "again"],
  ModelNotFound: ["model", "settings"],
  ModelContextTooLong: ["summarize", "model"],
  ModelRateLimited: ["again", "model"],
  ModelUnavailable: ["again", "model"],
  ModelTimeout: ["again", "model"],
  ModelStreamCut: ["again"],
};

export default function RunFailure() {
  const strings = useStrings();
  const failures = useFailureStrings();
  const actions = useActions();
  const error = usePage(({ conversation }) => conversation.run.error);
  const untaken = usePage(({ conversation }) => conversation.run.id === null);
  const unsent = usePage(({ conversation: { unsent, order } }) => unsent.has(order.at(-1) ?? ""));
  const last = usePage(({ conversation }) => lastOwn(conversation)?.id);
  const hasOutput = usePage(({ conversation }) => hasAnswer(conversation));
  const model = useFailedModel();
  const fault = faultOf(error, failures);
  // What the server did not accept was a message, or else a decision.
  const undecided = untaken && !unsent;
  const headline =
    fault !== null
      ? failures.runErrors[fault](model)
      : undecided
        ? strings.notDecided
        : unsent
          ? notSent(error, strings)
          : hasOutput
            ? strings.runFailed
            : strings.runFailedEarly;
  const kept = !untaken && hasOutput ? strings.runFailedKept : "";
  const detail = `${reasonOf(error, fault, untaken, strings, failures)} ${kept}`.trim();
  const again = () => void (unsent ? actions.resend() : last !== undefined && actions.regenerate(last));
  const remedies: readonly Remedy[] = fault !== null ? REMEDIES[fault] : undecided ? [] : ["again"];
  return (
    <div
      role="alert"
      className="flex animate-appear flex-col gap-2 rounded-box border border-error/40 bg-error-tint px-4 py-3"
    >
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <div className={`min-w-0 flex-1 ${remedies.length > 1 ? "basis-full" : "basis-72"}`}>
          <p className="flex gap-2 font-medium text-error">
            <CircleAlert aria-hidden className="mt-0.5 size-4 shrink-0" />
            {headline}
          </p>
          <p className="mt-1 pl-6 text-soft [overflow-wrap:anywhere] empty:hidden">
            {detail || (undecided ? strings.notDecidedHint : "")}
          </p>
        </div>
        <div
          className={`flex flex-wrap gap-2 empty:hidden ${remedies.length > 1 ? "pl-6" : "max-wide:pl-6"}`}
        >
          <Remedies all={remedies} unsent={unsent} again={again} />
        </div>
      </div>
      {fault !== null && <Details error={error} />}
    </div>
  );
}

/** Return the name of the model that failed, as a person knows it. */
function useFailedModel(): string {
  const strings = useStrings();
  const started = useModelName(usePage(({ conversation }) => conversation.run.model));
  const current = useCurrentModel();
  return started ?? (current === null ? strings.thisModel : modelName(current));
}

interface RemediesProps {
  readonly all: readonly Remedy[];
  readonly unsent: boolean;
  readonly again: () => void;
}

function Remedies({ all, ...rest }: RemediesProps) {
  // Readers of a shared thread can do nothing about it.
  if (useIsReader()) return null;
  return all.map((remedy, index) => (
    <RemedyButton key={remedy} remedy={remedy} primary={index === 0 && all.length > 1} {...rest} />
  ));
}

interface RemedyProps extends Omit<RemediesProps, "all"> {
  readonly remedy: Remedy;
  readonly primary: boolean;
}

function RemedyButton({ remedy, primary, unsent, again }: RemedyProps) {
  const strings = useStrings();
  const failures = useFailureStrings();
  const actions = useActions();
  const failed = usePage(({ conversation }) => conversation.run.model);
  const current = useCurrentModel()?.name ?? null;
  if (remedy === "again") {
    return (
      <Button primary={primary} onClick={again}>
        {unsent ? strings.sendAgain : strings.tryAgain}
      </Button>
    );
  }
  if (remedy === "model") {
    return (
      <OtherModels onChosen={again}>
        <Button primary={primary}>{failures.useAnotherModel}</Button>
      </OtherModels>
    );
  }
  if (remedy === "summarize") {
    return (
      <Button primary={primary} onClick={() => void actions.summarizeAndRetry()}>
        {failures.summarizeAndRetry}
      </Button>
    );
  }
  if (remedy === "key") {
    return (
      <Button
        primary={primary}
        onClick={() => actions.connectModel({ connectionId: null, keyOf: failed ?? current ?? "" })}
      >
        {failures.updateKey}
      </Button>
    );
  }
  return (
    <Link to="/settings" hash="models" className={buttonLook(primary)}>
      {failures.modelSettings}
    </Link>
  );
}

/** The words of the provider. */
function Details({ error }: { error: RunError | null }) {
  const failures = useFailureStrings();
  if (error === null || error.message === "") return null;
  return (
    <details className="pl-6 text-small text-soft">
      <summary className="w-fit cursor-pointer hover:text-ink">{failures.errorDetails}</summary>
      <p className="mt-1 font-mono [overflow-wrap:anywhere]">{sentence(error.message)}</p>
    </details>
  );
}

/** Return true if the last message has a part of an answer. */
function hasAnswer(conversation: Conversation): boolean {
  const { order } = conversation;
  const own = lastOwn(conversation)?.id ?? "";
  return order.slice(order.lastIndexOf(own) + 1).some((id) => {
    const message = findMessage(conversation, id);
    return message?.role === "assistant" && isHere(message) && !message.hidden && !isBlank(message);
  });
}

function faultOf(error: RunError | null, failures: FailureStrings): ModelFault | null {
  return error !== null && error.name in failures.runErrors ? (error.name as ModelFault) : null;
}

/** Return what to do about a known error, else what happened; nothing if the headline says it. */
function reasonOf(
  error: RunError | null,
  fault: ModelFault | null,
  untaken: boolean,
  strings: Strings,
  failures: FailureStrings,
): string {
  if (fault !== null) return failures.runErrorHints[fault];
  const inHeadline = error?.name === "NetworkError" || error?.name === "Conflict";
  if (error === null || (untaken && inHeadline)) return "";
  const translated: Readonly<Record<string, string>> = strings.reasons;
  return translated[error.name] ?? sentence(error.message);
}

function notSent(error: RunError | null, strings: Strings): string {
  if (error?.name === "NetworkError") return strings.notSentUnreachable;
  return error?.name === "Conflict" ? strings.notSentBusy : strings.notSent;
}
