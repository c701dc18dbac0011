/** A tool call: one line that expands to input and output. */

import { ChevronRight, type LucideIcon } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Monospace } from "@/features/chat/tool/Monospace";
import { SubagentProgress, SubagentResult, useSubagentNote } from "@/features/chat/tool/SubagentProgress";
import { ToolInput } from "@/features/chat/tool/ToolInput";
import type { Group, Turns } from "@/features/chat/turns";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatDuration, SHOWN_FROM_MS } from "@/i18n/format";
import type { Language, Strings } from "@/i18n/i18n";
import type { Message, ToolCall } from "@/run/message";
import { lastLines } from "@/run/progress";
import { type Review, reviewOf } from "@/run/review";
import { exitCodeIn, type ToolKind, textArgument, toolKind, toolObject, toolReason } from "@/run/toolCalls";
import { usePage } from "@/state/context";
import { Elapsed } from "@/ui/Elapsed";
import { TOOL_ICONS } from "@/ui/toolIcons";

/** State of a call without a result. */
export type CallState = "running" | "waiting" | "over";

interface Props {
  readonly call: ToolCall;
  readonly result: Message | undefined;
  readonly state: CallState;
  /** The message that has the call. */
  readonly caller: Message;
}

export function ToolCard({ call: called, result: toolResult, state, caller }: Props) {
  const strings = useStrings();
  const language = useLanguage();
  const subagentNote = useSubagentNote(called.id);
  const output = usePage(({ conversation }) => conversation.progress.get(called.id));
  // A stopped call has no result and is not a failure.
  const result = toolResult?.stopped === true ? undefined : toolResult;
  const review = result === undefined ? null : reviewOf(result);
  // Show the arguments that were run, not the original ones.
  const call = review?.type === "edited" ? { ...called, args: review.args } : called;
  const kind = toolKind(call);
  const exitCode = kind === "run" ? exitCodeIn(result?.text ?? "") : null;
  const failed = (result?.failed === true && review === null) || exitCode !== null;
  const running = result === undefined && state === "running";
  const live = result === undefined ? output : undefined;
  const duration = durationOf(result, caller);
  const took = duration !== null && duration >= SHOWN_FROM_MS && formatDuration(duration, language);

  const verb = review?.type === "rejected" ? strings.toolRejected : verbOf(kind, result, state, strings);
  // The model says what a command is for; the command itself is inside.
  const purpose = kind === "run" || kind === "start" ? toolReason(call) : "";
  const object = toolObject(call);
  // Words of people are text; commands, paths and patterns are code.
  const isText = kind === "delegate" || object === textArgument(call, "query");
  const succeeds = running || (result !== undefined && !result.failed);
  return (
    <Collapsible
      icon={TOOL_ICONS[kind]}
      tone={failed ? "failed" : running ? "running" : "quiet"}
      verb={purpose !== "" && succeeds ? "" : verb}
      purpose={purpose || (isText ? object : "")}
      object={object}
      title={textArgument(call, "path") || purpose || object}
      clock={running && caller.settledAt !== null ? <Elapsed since={caller.settledAt} /> : null}
      aside={[
        subagentNote,
        review?.type === "edited" && strings.toolEdited,
        review === null && allowedNote(result, caller, language, strings),
        exitCode !== null && strings.exitCode(exitCode),
        result === undefined
          ? subagentNote === false && describeState(state, strings)
          : review?.type !== "rejected" && took,
      ]}
      opensByDefault={failed || (running && (live !== undefined || subagentNote !== false))}
    >
      <ToolInput call={call} named={purpose !== ""} />
      {kind === "delegate" && <SubagentProgress callId={call.id} runId={toolResult?.runId ?? null} />}
      {live !== undefined && <Monospace label={strings.toolOutput} text={lastLines(live)} grows />}
      {result !== undefined && kind === "delegate" && !failed && <SubagentResult text={result.text} />}
      {result !== undefined && (failed || !["write", "edit", "delegate"].includes(kind)) && (
        <Monospace label={strings.toolOutput} text={outputOf(result, review) || strings.toolNoOutput} />
      )}
    </Collapsible>
  );
}

/** Similar calls grouped in one line. */
export function ToolGroup({ group, results }: { group: Group; results: Turns["results"] }) {
  const strings = useStrings();
  return (
    <Collapsible
      icon={TOOL_ICONS[group.kind]}
      tone="quiet"
      verb={strings.toolGroups[group.kind](group.calls.length)}
      opensByDefault={false}
    >
      {group.calls.map(({ call, caller }) => (
        <ToolCard key={call.id} call={call} caller={caller} result={results.get(call.id)} state="over" />
      ))}
    </Collapsible>
  );
}

interface FoldableProps {
  readonly icon: LucideIcon;
  readonly tone: "failed" | "running" | "quiet";
  readonly verb: string;
  readonly object?: string;
  /** Shown in place of the object, as text. */
  readonly purpose?: string;
  readonly title?: string;
  readonly clock?: ReactNode;
  /** Notes at the end of the line; false values are skipped. */
  readonly aside?: readonly (string | false)[];
  readonly opensByDefault: boolean;
  readonly children: ReactNode;
}

function Collapsible({
  icon: Icon,
  tone,
  verb,
  object,
  purpose = "",
  title,
  clock = null,
  aside = [],
  opensByDefault,
  children,
}: FoldableProps) {
  // Null until the user toggles it.
  const [chosen, setChosen] = useState<boolean | null>(null);
  const open = chosen ?? opensByDefault;
  const colours = { failed: "text-error", running: "animate-breathe text-running", quiet: "text-faint" };
  return (
    <div data-step className="border-l border-line pl-2">
      <div className={tone === "failed" ? "my-1 overflow-hidden rounded-box border border-error/40" : ""}>
        <button
          type="button"
          aria-expanded={open}
          onClick={() => setChosen(!open)}
          className="flex h-7 w-full items-center gap-2 rounded-box px-2 text-left text-ui hover:bg-tint focus-visible:-outline-offset-2"
        >
          <Icon aria-hidden className={`size-4 shrink-0 ${colours[tone]}`} />
          {verb !== "" && (
            <span
              className={`${purpose === "" ? "" : "max-wide:sr-only"} shrink-0 ${tone === "failed" ? "text-error" : "text-soft"}`}
            >
              {verb}
            </span>
          )}
          {purpose !== "" ? (
            <span title={title} className="min-w-0 truncate">
              {purpose}
            </span>
          ) : (
            <code title={title} className="min-w-0 truncate font-mono text-small empty:hidden">
              {object}
            </code>
          )}
          <span className="ml-auto max-w-[45%] shrink-0 truncate text-small text-faint">
            {aside.filter(Boolean).join(" · ")}
          </span>
          {clock}
          <ChevronRight
            aria-hidden
            className={`size-4 shrink-0 text-faint transition-transform duration-120 ${open ? "rotate-90" : ""}`}
          />
        </button>
        {open && (
          <div className="mt-1 mb-2 ml-2 flex animate-unfold flex-col gap-3 rounded-box bg-rail p-3">
            {children}
          </div>
        )}
      </div>
    </div>
  );
}

function verbOf(kind: ToolKind, result: Message | undefined, state: CallState, strings: Strings): string {
  const { progressive, past, failing } = strings.toolVerbs[kind];
  if (result === undefined) return state === "over" ? strings.toolStopped : progressive;
  return result.failed ? failing : past;
}

/** Describe the state of a call without a result. */
function describeState(state: CallState, strings: Strings): string {
  return state === "waiting" ? strings.toolWaiting : "";
}

/** Return the output without the note for the model. */
function outputOf(result: Message, review: Review | null): string {
  if (review === null) return result.text;
  return review.type === "edited" ? review.output : review.reason;
}

/** Return who allowed a call, and when: its result belongs to the run that went on after the decision. */
function allowedNote(
  result: Message | undefined,
  caller: Message,
  language: Language,
  strings: Strings,
): string | false {
  const here = result?.allowedInThread === true && strings.allowedInThread;
  if (result?.settledAt == null || result.runId === null || caller.runId === null) return here;
  if (result.runId === caller.runId) return here;
  const at = new Date(result.settledAt - (result.tookMs ?? 0));
  return strings.allowedByYou(
    at.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
  );
}

/** Return the measured duration, else an estimate that is only good if nobody was asked in between. */
function durationOf(result: Message | undefined, caller: Message): number | null {
  if (result === undefined) return null;
  if (result.tookMs !== null) return result.tookMs;
  if (result.settledAt === null || caller.settledAt === null || caller.runId !== result.runId) return null;
  return result.settledAt - caller.settledAt;
}
