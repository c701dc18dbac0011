/** What a subagent does, step by step, inside the card of the call that gave it work. */

import { MessageSquareText, Wrench } from "lucide-react";
import { useEffect } from "react";
import { useActions, useLanguage, usePage, useStrings } from "@/app/context";
import type { Strings } from "@/i18n/i18n";
import type { Lane, Progress } from "@/run/lanes";
import { lastLines } from "@/run/progress";

export function SubagentLane({ callId, runId }: { callId: string; runId: string | null }) {
  const strings = useStrings();
  const actions = useActions();
  const lane = usePage(({ conversation }) => conversation.lanes.get(callId));
  const known = lane !== undefined;

  // A page that was not there asks what went on, when somebody wants to see it.
  useEffect(() => {
    if (!known && runId !== null) void actions.loadLanes(runId);
  }, [actions, known, runId]);

  if (lane === undefined) return null;
  if (lane.progress !== null) return <BatchProgress lane={lane} progress={lane.progress} />;
  if (lane.steps.length === 0) return null;
  return (
    <ol
      aria-label={strings.subagentSteps}
      className="flex max-h-60 flex-col gap-1 overflow-y-auto text-small"
    >
      {lane.steps.map((step, index) => {
        const Icon = step.kind === "used" ? Wrench : MessageSquareText;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: steps are only added, and stay in their place
          <li key={index} className="flex min-w-0 gap-2 text-soft">
            <Icon aria-hidden className="mt-0.5 size-3.5 shrink-0 text-faint" />
            <span
              className={`min-w-0 [overflow-wrap:anywhere] ${step.kind === "used" ? "font-mono whitespace-pre-line" : "line-clamp-3"}`}
            >
              {lastLines(step.text)}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

/** How far a batch is, to be seen at a glance. */
function BatchProgress({ lane, progress }: { lane: Lane; progress: Progress }) {
  const strings = useStrings();
  const language = useLanguage();
  const { done, total, failed } = progress;
  const share = (count: number) => `${(100 * count) / Math.max(total, 1)}%`;
  return (
    <div className="flex flex-col gap-1 text-small text-soft">
      <div
        role="progressbar"
        aria-label={strings.batchProgress}
        aria-valuenow={done}
        aria-valuemin={0}
        aria-valuemax={total}
        className="flex h-1.5 overflow-hidden rounded-full bg-line"
      >
        <div
          className={lane.state === "running" ? "bg-running" : "bg-done"}
          style={{ width: share(done - failed) }}
        />
        <div className="bg-error" style={{ width: share(failed) }} />
      </div>
      <span>{progressNote(lane, strings, language)}</span>
    </div>
  );
}

/** How a lane stands, in a few words for the end of a line. */
export function useLaneNote(callId: string): string | false {
  const strings = useStrings();
  const language = useLanguage();
  const lane = usePage(({ conversation }) => conversation.lanes.get(callId));
  if (lane === undefined) return false;
  return [
    stateNote(lane, strings.laneStates),
    progressNote(lane, strings, language),
    tokensNote(lane, language, strings.tokens),
  ]
    .filter(Boolean)
    .join(" · ");
}

function stateNote(
  { state, agent, steps, progress }: Lane,
  states: Readonly<Record<Lane["state"], string>>,
): string {
  const last = steps.at(-1);
  if (state === "running" && last?.kind === "used") return last.text.split(/\s/)[0] ?? "";
  if (state !== "running" && state !== "done") return states[state];
  // How far it is says more than who does it, and so does what came of it.
  return state === "running" && progress === null ? agent : "";
}

function progressNote({ progress }: Lane, strings: Strings, language: string): string {
  if (progress === null) return "";
  const count = new Intl.NumberFormat(language);
  const done = `${count.format(progress.done)} / ${count.format(progress.total)}`;
  return progress.failed === 0 ? done : `${done} · ${strings.itemsFailed(count.format(progress.failed))}`;
}

function tokensNote({ tokens }: Lane, language: string, strings: (count: string) => string): string {
  if (tokens === 0) return "";
  return strings(new Intl.NumberFormat(language, { notation: "compact" }).format(tokens));
}
