/** What a subagent does, step by step, inside the card of the call that gave it work. */

import { MessageSquareText, Wrench } from "lucide-react";
import { useEffect } from "react";
import { useActions, useLanguage, usePage, useWords } from "@/app/context";
import type { Lane } from "@/run/lanes";
import { lastLines } from "@/run/progress";

export function SubagentLane({ callId, runId }: { callId: string; runId: string | null }) {
  const words = useWords();
  const actions = useActions();
  const lane = usePage(({ conversation }) => conversation.lanes.get(callId));
  const known = lane !== undefined;

  // A page that was not there asks what went on, when somebody wants to see it.
  useEffect(() => {
    if (!known && runId !== null) void actions.loadLanes(runId);
  }, [actions, known, runId]);

  if (lane === undefined || lane.steps.length === 0) return null;
  return (
    <ol aria-label={words.subagentSteps} className="flex max-h-60 flex-col gap-1 overflow-y-auto text-small">
      {lane.steps.map((step, index) => {
        const Icon = step.kind === "used" ? Wrench : MessageSquareText;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: steps are only added, and stay in their place
          <li key={index} className="flex min-w-0 gap-2 text-soft">
            <Icon aria-hidden className="mt-0.5 size-3.5 shrink-0 text-faint" />
            <span
              className={`min-w-0 [overflow-wrap:anywhere] ${step.kind === "used" ? "font-mono" : "line-clamp-3"}`}
            >
              {lastLines(step.text)}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

/** How a lane stands, in a few words for the end of a line. */
export function useLaneNote(callId: string): string | false {
  const words = useWords();
  const language = useLanguage();
  const lane = usePage(({ conversation }) => conversation.lanes.get(callId));
  if (lane === undefined) return false;
  return [
    stateNote(lane, words.laneStates),
    progressNote(lane, language),
    tokensNote(lane, language, words.tokens),
  ]
    .filter(Boolean)
    .join(" · ");
}

function stateNote({ state, agent, steps }: Lane, states: Readonly<Record<Lane["state"], string>>): string {
  const last = steps.at(-1);
  if (state === "running" && last?.kind === "used") return last.text;
  return state === "running" || state === "done" ? agent : states[state];
}

function progressNote({ progress }: Lane, language: string): string {
  if (progress === null) return "";
  const count = new Intl.NumberFormat(language);
  return `${count.format(progress.done)} / ${count.format(progress.total)}`;
}

function tokensNote({ tokens }: Lane, language: string, words: (count: string) => string): string {
  if (tokens === 0) return "";
  return words(new Intl.NumberFormat(language, { notation: "compact" }).format(tokens));
}
