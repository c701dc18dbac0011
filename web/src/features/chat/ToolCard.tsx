/** A tool call in one line; opened, what went in and what came out. */

import {
  Activity,
  ChevronRight,
  CircleStop,
  FileCheck,
  FileDiff,
  FileText,
  FolderOpen,
  Globe,
  type LucideIcon,
  MessageCircleQuestionMark,
  PencilLine,
  Play,
  Search,
  Terminal,
  Users,
  Wrench,
} from "lucide-react";
import { type ReactNode, useState } from "react";
import { useLanguage, usePage, useStrings } from "@/app/context";
import { Mono } from "@/features/chat/Mono";
import { SubagentLane, useLaneNote } from "@/features/chat/SubagentLane";
import { ToolInput } from "@/features/chat/ToolInput";
import { exitCodeIn, type ToolKind, textArgument, toolKind, toolObject } from "@/features/chat/tools";
import type { Group, Turns } from "@/features/chat/turns";
import { formatShortDuration } from "@/i18n/format";
import type { Strings } from "@/i18n/i18n";
import type { Message, ToolCall } from "@/run/message";
import { lastLines } from "@/run/progress";
import { type Review, reviewOf } from "@/run/review";

export const TOOL_ICONS: Readonly<Record<ToolKind, LucideIcon>> = {
  run: Terminal,
  start: Play,
  check: Activity,
  end: CircleStop,
  read: FileText,
  write: PencilLine,
  edit: FileDiff,
  list: FolderOpen,
  search: Search,
  fetch: Globe,
  present: FileCheck,
  ask: MessageCircleQuestionMark,
  delegate: Users,
  use: Wrench,
};

/** What is being done about a call that has no result. */
export type CallState = "running" | "waiting" | "over";

interface Props {
  readonly call: ToolCall;
  readonly result: Message | undefined;
  readonly state: CallState;
  readonly calledAt: number | null;
}

export function ToolCard({ call: called, result: told, state, calledAt }: Props) {
  const strings = useStrings();
  const language = useLanguage();
  const laneNote = useLaneNote(called.id);
  const said = usePage(({ conversation }) => conversation.progress.get(called.id));
  // What somebody stopped has not failed: it has no result.
  const result = told?.stopped === true ? undefined : told;
  const review = result === undefined ? null : reviewOf(result);
  // The reader sees what was run, not what was first asked for.
  const call = review?.type === "edited" ? { ...called, args: review.args } : called;
  const kind = toolKind(call);
  const exitCode = kind === "run" ? exitCodeIn(result?.text ?? "") : null;
  const failed = (result?.failed === true && review === null) || exitCode !== null;
  const running = result === undefined && state === "running";
  const live = result === undefined ? said : undefined;
  const duration = durationOf(result, calledAt);
  const took = duration !== null && formatShortDuration(duration, language);

  return (
    <Foldable
      icon={TOOL_ICONS[kind]}
      look={failed ? "failed" : running ? "running" : "quiet"}
      verb={review?.type === "rejected" ? strings.toolRejected : verbOf(kind, result, strings)}
      object={toolObject(call)}
      title={textArgument(call, "path") || toolObject(call)}
      aside={[
        laneNote,
        review?.type === "edited" && strings.toolEdited,
        exitCode !== null && strings.exitCode(exitCode),
        result === undefined
          ? laneNote === false && standing(state, strings)
          : review?.type !== "rejected" && took,
      ]}
      opensItself={failed || (running && (live !== undefined || laneNote !== false))}
    >
      <ToolInput call={call} />
      {kind === "delegate" && <SubagentLane callId={call.id} runId={told?.runId ?? null} />}
      {live !== undefined && <Mono label={strings.toolOutput} text={lastLines(live)} grows />}
      {result !== undefined && (failed || (kind !== "write" && kind !== "edit")) && (
        <Mono label={strings.toolOutput} text={outputOf(result, review) || strings.toolNoOutput} />
      )}
    </Foldable>
  );
}

/** Several similar calls in one line; opened, each of them. */
export function ToolGroup({ group, results }: { group: Group; results: Turns["results"] }) {
  const strings = useStrings();
  return (
    <Foldable
      icon={TOOL_ICONS[group.kind]}
      look="quiet"
      verb={strings.toolGroups[group.kind](group.calls.length)}
      opensItself={false}
    >
      {group.calls.map(({ call, calledAt }) => (
        <ToolCard key={call.id} call={call} calledAt={calledAt} result={results.get(call.id)} state="over" />
      ))}
    </Foldable>
  );
}

interface FoldableProps {
  readonly icon: LucideIcon;
  readonly look: "failed" | "running" | "quiet";
  readonly verb: string;
  readonly object?: string;
  readonly title?: string;
  /** What stands at the end of the line, as far as there is anything to say. */
  readonly aside?: readonly (string | false)[];
  readonly opensItself: boolean;
  readonly children: ReactNode;
}

function Foldable({
  icon: Icon,
  look,
  verb,
  object,
  title,
  aside = [],
  opensItself,
  children,
}: FoldableProps) {
  // null: the reader has not decided.
  const [chosen, setChosen] = useState<boolean | null>(null);
  const open = chosen ?? opensItself;
  const colours = { failed: "text-error", running: "animate-breathe text-running", quiet: "text-faint" };
  return (
    <div
      className={`overflow-hidden rounded-box border bg-paper ${look === "failed" ? "border-error/40" : "border-line"}`}
    >
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setChosen(!open)}
        className="flex h-9 w-full items-center gap-2 px-3 text-left text-ui hover:bg-tint focus-visible:-outline-offset-2"
      >
        <Icon aria-hidden className={`size-4 shrink-0 ${colours[look]}`} />
        <span className={`shrink-0 ${look === "failed" ? "text-error" : "text-soft"}`}>{verb}</span>
        <code title={title} className="min-w-0 truncate font-mono text-small">
          {object}
        </code>
        <span className="ml-auto max-w-[45%] shrink-0 truncate text-small text-faint">
          {aside.filter(Boolean).join(" · ")}
        </span>
        <ChevronRight
          aria-hidden
          className={`size-4 shrink-0 text-faint transition-transform ${open ? "rotate-90" : ""}`}
        />
      </button>
      {open && <div className="flex flex-col gap-3 border-t border-line bg-rail p-3">{children}</div>}
    </div>
  );
}

function verbOf(kind: ToolKind, result: Message | undefined, strings: Strings): string {
  const { progressive, past, failing } = strings.toolVerbs[kind];
  if (result === undefined) return progressive;
  return result.failed ? failing : past;
}

/** How it stands with a call that has no result. */
function standing(state: CallState, strings: Strings): string {
  return { running: "", waiting: strings.toolWaiting, over: strings.toolUnfinished }[state];
}

/** What came out, without what was only told to the model. */
function outputOf(result: Message, review: Review | null): string {
  if (review === null) return result.text;
  return review.type === "edited" ? review.output : review.reason;
}

function durationOf(result: Message | undefined, calledAt: number | null): number | null {
  if (result?.settledAt == null || calledAt === null) return null;
  return result.settledAt - calledAt;
}
