/** Steps of a subagent inside its tool card. */

import { MessageSquareText } from "lucide-react";
import { useEffect } from "react";
import { progressNote } from "@/features/chat/tool/subagentNotes";
import { useLanguage, useStrings } from "@/i18n/context";
import type { Strings } from "@/i18n/i18n";
import { Markdown } from "@/markdown/Markdown";
import { lastLines } from "@/run/progress";
import type { BatchCounts, SubagentTask } from "@/run/subagentTasks";
import { type ToolKind, toolKind } from "@/run/toolCalls";
import { useActions, usePage } from "@/state/context";
import { TOOL_ICONS } from "@/ui/toolIcons";

export function SubagentProgress({ callId, runId }: { callId: string; runId: string | null }) {
  const strings = useStrings();
  const actions = useActions();
  const task = usePage(({ conversation }) => conversation.subagentTasks.get(callId));
  const known = task !== undefined;

  // Load the steps of a run this page did not stream.
  useEffect(() => {
    if (!known && runId !== null) void actions.loadSubagentTasks(runId);
  }, [actions, known, runId]);

  if (task === undefined) return null;
  if (task.progress !== null) return <BatchProgress task={task} progress={task.progress} />;
  // The last words of a finished task are its result, which is shown below.
  const steps =
    task.state === "done" && task.steps.at(-1)?.kind === "text" ? task.steps.slice(0, -1) : task.steps;
  if (steps.length === 0) return null;
  return (
    <ol
      aria-label={strings.subagentSteps}
      className="flex max-h-60 flex-col gap-1 overflow-y-auto text-small"
    >
      {steps.map((step, index) => {
        const Icon = step.kind === "toolCall" ? TOOL_ICONS[kindIn(step.text)] : MessageSquareText;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: steps are only added, and stay in their place
          <li key={index} className="flex min-w-0 gap-2 text-soft">
            <Icon aria-hidden className="mt-0.5 size-3.5 shrink-0 text-faint" />
            <span
              className={`min-w-0 [overflow-wrap:anywhere] ${step.kind === "toolCall" ? "whitespace-pre-line" : "line-clamp-3"}`}
            >
              {step.kind === "toolCall" ? describeCalls(step.text, strings) : lastLines(step.text)}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

/** Describe calls, one per line, with the verbs of tool cards. */
function describeCalls(text: string, strings: Strings): string {
  return lastLines(text)
    .split("\n")
    .map((line) => {
      const [, ...rest] = line.split(" ");
      const kind = kindIn(line);
      return kind === "use" ? line : `${strings.toolVerbs[kind].past} ${rest.join(" ")}`.trim();
    })
    .join("\n");
}

/** Return the kind of a call, whose description begins with the name of the tool. */
function kindIn(line: string): ToolKind {
  return toolKind({ id: "", index: 0, name: line.split(/\s/, 1)[0] ?? "", args: {} });
}

// Words for the model before the result.
const SUCCEEDED = /^Task Succeeded\. Result:\s*/;

/** The result of a subagent, as text. */
export function SubagentResult({ text }: { text: string }) {
  const strings = useStrings();
  return (
    <div className="text-small">
      <div className="mb-1 text-faint">{strings.subagentResult}</div>
      <div className="max-h-96 overflow-y-auto [&_.prose]:text-ui">
        <Markdown text={text.replace(SUCCEEDED, "")} growing={false} />
      </div>
    </div>
  );
}

/** Progress bar of a batch. */
function BatchProgress({ task, progress }: { task: SubagentTask; progress: BatchCounts }) {
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
          className={task.state === "running" ? "bg-running" : "bg-done"}
          style={{ width: share(done - failed) }}
        />
        <div className="bg-error" style={{ width: share(failed) }} />
      </div>
      <span>{progressNote(task, strings, language)}</span>
    </div>
  );
}
