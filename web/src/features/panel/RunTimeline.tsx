/** Timeline of a run with durations and cost. */

import { useQuery } from "@tanstack/react-query";
import { Brain, type LucideIcon, TriangleAlert, Wrench } from "lucide-react";
import { type ReactNode, useState } from "react";
import type { WireRun, WireToolCall } from "@/api/wire";
import { EmptyPanel } from "@/features/panel/EmptyPanel";
import { InjectedMemory } from "@/features/panel/InjectedMemory";
import { PrefixCache } from "@/features/panel/PrefixCache";
import { type Step, timelineOf } from "@/features/panel/timeline";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatCost, formatCount, formatDuration, formatMoment, formatShortDuration } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import type { ToolCall } from "@/run/message";
import { isProse, toolKind, toolObject, toolReason } from "@/run/toolCalls";
import { useFeature, useServer } from "@/state/server";
import { Elapsed } from "@/ui/Elapsed";
import { ErrorState, LoadingState } from "@/ui/states";
import { TOOL_ICONS } from "@/ui/toolIcons";

export function RunTimeline({ threadId }: { threadId: string }) {
  const strings = useStrings();
  const language = useLanguage();
  const server = useServer();
  const [chosen, setChosen] = useState<string | null>(null);
  const runs = useQuery({ queryKey: ["thread", threadId, "runs"], queryFn: () => server.runs(threadId) });
  if (runs.isPending) return <LoadingState />;
  if (runs.isError) return <ErrorState text={strings.runUnavailable} onRetry={() => void runs.refetch()} />;
  const run = runs.data.find(({ run_id }) => run_id === chosen) ?? runs.data[0];
  if (run === undefined) return <EmptyPanel text={strings.noRuns} />;
  return (
    <div className="@container min-h-0 flex-1 overflow-y-auto p-4 tabular-nums">
      {runs.data.length > 1 && (
        <label className="mb-3 flex items-center gap-2 text-small text-faint">
          {strings.run}
          <select
            value={run.run_id}
            onChange={(event) => setChosen(event.target.value)}
            className="h-8 rounded-box border border-line-strong bg-raised px-2 text-ink"
          >
            {runs.data.map(({ run_id, created_at }) => (
              <option key={run_id} value={run_id}>
                {formatMoment(created_at, language)}
              </option>
            ))}
          </select>
        </label>
      )}
      <Totals threadId={threadId} run={run} />
      <InjectedMemory threadId={threadId} run={run} />
      <Steps threadId={threadId} run={run} />
    </div>
  );
}

function Totals({ threadId, run }: { threadId: string; run: WireRun }) {
  const strings = useStrings();
  const language = useLanguage();
  const server = useServer();
  const counted = useFeature("token_usage");
  const usage = useQuery({
    queryKey: ["thread", threadId, "usage", run.run_id],
    queryFn: () => server.runUsage(threadId, run.run_id),
    enabled: counted,
  });
  const began = Date.parse(run.created_at);
  const isActive = run.status === "running";
  // Tokens are counted when the run has ended.
  const tokens = isActive ? undefined : usage.data;
  const facts: readonly (readonly [string, ReactNode])[] = [
    [strings.runStatus, strings.runStatuses[run.status]],
    [
      strings.runDuration,
      isActive ? (
        <Elapsed key={began} since={began} className="" />
      ) : (
        formatDuration(Date.parse(run.updated_at) - began, language)
      ),
    ],
    ...(tokens ? [[strings.tokensIn, formatCount(tokens.input_tokens, language)] as const] : []),
    ...(tokens ? [[strings.tokensOut, formatCount(tokens.output_tokens, language)] as const] : []),
    ...(tokens?.cost ? [[strings.cost, formatCost(tokens.cost, language)] as const] : []),
  ];
  return (
    <>
      <dl className="mb-4 grid grid-cols-3 gap-3 @lg:grid-cols-5">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt className="text-small text-faint">{name}</dt>
            <dd className="font-medium">{value}</dd>
          </div>
        ))}
      </dl>
      {usage.data && <PrefixCache usage={usage.data.prefix_cache} />}
    </>
  );
}

function Steps({ threadId, run }: { threadId: string; run: WireRun }) {
  const strings = useStrings();
  const server = useServer();
  const events = useQuery({
    queryKey: ["thread", threadId, "events", run.run_id],
    queryFn: () => server.runEvents(threadId, run.run_id),
  });
  if (events.isPending) return <LoadingState />;
  if (events.isError)
    return <ErrorState text={strings.runUnavailable} onRetry={() => void events.refetch()} />;
  const steps = timelineOf(run, events.data);
  const whole = Math.max(...steps.map(({ startMs, durationMs }) => startMs + durationMs), 1);
  return (
    <ol aria-label={strings.runSteps} className="flex flex-col gap-1">
      {steps.map((step) => (
        <StepRow key={step.id} step={step} whole={whole} />
      ))}
    </ol>
  );
}

const ICONS: Readonly<Record<Step["kind"], LucideIcon>> = {
  model: Brain,
  tool: Wrench,
  error: TriangleAlert,
};
const BARS: Readonly<Record<Step["kind"], string>> = {
  model: "bg-running",
  tool: "bg-done",
  error: "bg-error",
};

function StepRow({ step, whole }: { step: Step; whole: number }) {
  const strings = useStrings();
  const language = useLanguage();
  const Icon = step.call === null ? ICONS[step.kind] : TOOL_ICONS[toolKind(asCall(step.call))];
  const place = {
    left: `${(step.startMs / whole) * 100}%`,
    width: `max(2px, ${(step.durationMs / whole) * 100}%)`,
  };
  return (
    <li className="rounded-box px-2 py-1.5 hover:bg-tint">
      <div className="flex items-center gap-2">
        <Icon aria-hidden className={`size-4 shrink-0 ${step.failed ? "text-error" : "text-faint"}`} />
        <span className="min-w-0 flex-1 truncate">
          <Label step={step} />
        </span>
        {step.tokens !== null && (
          <span className="shrink-0 text-small text-faint">
            {strings.tokens(formatCount(step.tokens, language))}
          </span>
        )}
        <span className="shrink-0 text-small text-faint">
          {formatShortDuration(step.durationMs, language)}
        </span>
      </div>
      <div aria-hidden className="relative mt-1 h-1 rounded-full bg-tint">
        <div
          style={place}
          className={`absolute inset-y-0 rounded-full ${step.failed ? "bg-error" : BARS[step.kind]}`}
        />
      </div>
    </li>
  );
}

function Label({ step }: { step: Step }) {
  const strings = useStrings();
  if (step.kind === "model") return strings.modelTurn;
  if (step.call === null) return sentence(step.text);
  const call = asCall(step.call);
  const kind = toolKind(call);
  const verbs = strings.toolVerbs[kind];
  // Commands are named by their purpose, as in the conversation.
  const purpose = kind === "run" || kind === "start" ? toolReason(call) : "";
  if (purpose !== "") return <span title={toolObject(call)}>{purpose}</span>;
  return (
    <>
      {step.failed ? verbs.failing : verbs.past}{" "}
      {isProse(call) ? toolObject(call) : <code className="font-mono text-small">{toolObject(call)}</code>}
    </>
  );
}

function asCall({ id, name, args }: WireToolCall): ToolCall {
  return { id: id ?? "", index: 0, name, args };
}
