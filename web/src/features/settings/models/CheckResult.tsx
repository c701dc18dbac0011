/** Result of a check: what works, what does not, and what to do. */

import { Check, CircleAlert, Info, type LucideIcon, TriangleAlert, X } from "lucide-react";
import type { ModelCheck, ModelProblem } from "@/api/models";
import { useModelStrings } from "@/features/settings/models/useConnections";
import { useLanguage } from "@/i18n/context";
import { formatShortDuration } from "@/i18n/format";
import { InlineCode } from "@/ui/InlineCode";

interface Props {
  readonly check: ModelCheck;
  /** Address before the check. */
  readonly entered: string;
}

type Ability = "answer" | "streaming" | "tools" | "usage";
const ABILITIES: readonly Ability[] = ["answer", "streaming", "tools", "usage"];

export function CheckResult({ check, entered }: Props) {
  const strings = useModelStrings();
  const language = useLanguage();
  const time = formatShortDuration(check.seconds * 1000, language);
  const isLimited = check.problems.some(({ severity }) => severity !== "note");
  const isMended = check.works && entered !== "" && check.base_url !== entered;
  return (
    <section aria-live="polite" className="flex flex-col gap-3">
      {check.works && (
        <p className="flex items-center gap-2 font-medium text-done">
          <Check aria-hidden className="size-4 shrink-0" />
          {isLimited ? strings.worksPartly(time) : strings.works(time)}
        </p>
      )}
      {check.problems.map((problem) => (
        <Problem key={problem.code} problem={problem} />
      ))}
      {isMended && (
        <p className="text-small text-soft">
          {strings.mended} <code className="font-mono [overflow-wrap:anywhere]">{check.base_url}</code>
        </p>
      )}
      {check.tested !== null && <Abilities check={check} model={check.tested} />}
      <Details check={check} />
    </section>
  );
}

function Abilities({ check, model }: { check: ModelCheck; model: string }) {
  const strings = useModelStrings();
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-small text-soft">
      <span className="basis-full [overflow-wrap:anywhere]">{strings.tested(model)}</span>
      {ABILITIES.map((ability) => {
        const has = check.observed[ability] ?? null;
        if (has === null) return null;
        const Icon = has ? Check : X;
        return (
          <span key={ability} className={`flex items-center gap-1 ${has ? "text-done" : "text-warning"}`}>
            <Icon aria-label={has ? strings.yes : strings.no} role="img" className="size-3.5" />
            {strings.abilities[ability]}
          </span>
        );
      })}
    </div>
  );
}

const LOOKS: Readonly<Record<ModelProblem["severity"], readonly [string, LucideIcon]>> = {
  error: ["bg-error-tint text-error", CircleAlert],
  warning: ["bg-warning-tint text-warning", TriangleAlert],
  note: ["bg-tint text-soft", Info],
};

function Problem({ problem }: { problem: ModelProblem }) {
  const strings = useModelStrings();
  const text = strings.problems[problem.code];
  const [look, Icon] = LOOKS[problem.severity];
  return (
    <div
      role={problem.severity === "error" ? "alert" : undefined}
      className={`flex gap-2 rounded-box px-3 py-2 ${look}`}
    >
      <Icon aria-hidden className="mt-0.5 size-4 shrink-0" />
      <div className="min-w-0 [overflow-wrap:anywhere]">
        <p className="font-medium">{text.message(problem.values)}</p>
        <p className="text-soft">
          <InlineCode text={text.remedy(problem.values)} />
        </p>
      </div>
    </div>
  );
}

function Details({ check }: { check: ModelCheck }) {
  const strings = useModelStrings();
  const answers = check.problems.flatMap(({ detail }) => (detail === null ? [] : [detail]));
  if (check.works && answers.length === 0) return null;
  if (check.attempts.length === 0 && answers.length === 0) return null;
  return (
    <details className="text-small">
      <summary className="cursor-pointer text-soft">{strings.details}</summary>
      <div className="mt-2 flex flex-col gap-2 rounded-box bg-tint px-3 py-2 [overflow-wrap:anywhere]">
        {answers.length > 0 && <span>{strings.providerSaid}</span>}
        {answers.map((answer) => (
          <code key={answer} className="font-mono whitespace-pre-wrap">
            {answer}
          </code>
        ))}
        {check.attempts.length > 0 && <span>{strings.attempts}</span>}
        {check.attempts.map(({ url, outcome }) => (
          <code key={url} className="font-mono">
            {url} → {outcome}
          </code>
        ))}
      </div>
    </details>
  );
}
