/** Short status of subagents. */

import { useLanguage, useStrings } from "@/i18n/context";
import type { Strings } from "@/i18n/i18n";
import type { SubagentTask } from "@/run/subagentTasks";
import { usePage } from "@/state/context";

/** Return a short status of a subagent. */
export function useSubagentNote(callId: string): string | false {
  const strings = useStrings();
  const language = useLanguage();
  const task = usePage(({ conversation }) => conversation.subagentTasks.get(callId));
  if (task === undefined) return false;
  return [
    stateNote(task, strings.subagentStates),
    progressNote(task, strings, language),
    tokensNote(task, language, strings.tokens),
  ]
    .filter(Boolean)
    .join(" · ");
}

function stateNote(
  { state, agent, steps, progress }: SubagentTask,
  states: Readonly<Record<SubagentTask["state"], string>>,
): string {
  const last = steps.at(-1);
  if (state === "running" && last?.kind === "toolCall") return "";
  if (state !== "running" && state !== "done") return states[state];
  // Progress and results are more useful than the agent's name.
  return state === "running" && progress === null && agent !== "general-purpose" ? agent : "";
}

/** Return the number of finished items of a batch. */
export function progressNote({ progress }: SubagentTask, strings: Strings, language: string): string {
  if (progress === null) return "";
  const count = new Intl.NumberFormat(language);
  const done = `${count.format(progress.done)} / ${count.format(progress.total)}`;
  return progress.failed === 0 ? done : `${done} · ${strings.itemsFailed(count.format(progress.failed))}`;
}

function tokensNote({ tokens }: SubagentTask, language: string, strings: (count: string) => string): string {
  if (tokens === 0) return "";
  return strings(new Intl.NumberFormat(language, { notation: "compact" }).format(tokens));
}
