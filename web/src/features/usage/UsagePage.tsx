/** Tokens and cost of all threads: this month or the latest days, by day, model and thread. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useId, useState } from "react";
import type { ConsoleUsage, Tokens } from "@/api/usage";
import { MonthlyBudget } from "@/features/usage/MonthlyBudget";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatCost, formatCount, formatPercent } from "@/i18n/format";
import { useUsageStrings } from "@/i18n/usage";
import { PageFrame } from "@/layout/PageFrame";
import { useModelName } from "@/state/models";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { InlineCode } from "@/ui/InlineCode";
import { Segments } from "@/ui/Segments";
import { EmptyState, ErrorState, LoadingState } from "@/ui/states";

type Period = "month" | "days";

export function UsagePage() {
  const strings = useUsageStrings();
  const server = useServer();
  const [period, setPeriod] = useState<Period>("month");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const days = period === "month" ? new Date().getDate() : 30;
  const usage = useQuery({
    queryKey: ["usage", days, zone],
    queryFn: () => server.usage(days, zone),
    staleTime: 0,
  });
  return (
    <PageFrame title={strings.usage}>
      <div className="flex flex-col gap-8">
        <div className="flex">
          <Segments
            label={strings.period}
            value={period}
            options={{ month: strings.thisMonth, days: strings.last30 }}
            onChoose={setPeriod}
          />
        </div>
        {usage.isPending && <LoadingState />}
        {usage.isError && <ErrorState text={strings.unavailable} onRetry={() => void usage.refetch()} />}
        {usage.data && <Figures usage={usage.data} />}
        {usage.data && (
          <Section title={strings.monthlyBudget}>
            <MonthlyBudget zone={zone} />
          </Section>
        )}
        {usage.data && <Budget limits={usage.data.run_limits} />}
      </div>
    </PageFrame>
  );
}

function Figures({ usage }: { usage: ConsoleUsage }) {
  const strings = useUsageStrings();
  const common = useStrings();
  const navigate = useNavigate();
  return (
    <>
      <Totals usage={usage} />
      {usage.totals.calls === 0 ? (
        <EmptyState text={strings.none}>
          <Button onClick={() => void navigate({ to: "/" })}>{common.startThread}</Button>
        </EmptyState>
      ) : (
        <>
          <Section title={strings.byDay}>
            <Days usage={usage} />
          </Section>
          <Section title={strings.byModel}>
            <Shares
              head={strings.model}
              rows={usage.by_model.map((each) => ({
                key: each.name,
                label: <ModelName name={each.name} />,
                tokens: each,
              }))}
            />
          </Section>
          <Section title={strings.byThread}>
            <Shares
              head={strings.thread}
              rows={usage.by_thread.map((each) => ({
                key: each.thread_id ?? "",
                label: <ThreadName threadId={each.thread_id} title={each.title} />,
                tokens: each,
              }))}
            />
          </Section>
        </>
      )}
    </>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <h2 id={id} className="mb-2 text-title font-semibold">
        {title}
      </h2>
      {children}
    </section>
  );
}

function Totals({ usage: { totals } }: { usage: ConsoleUsage }) {
  const strings = useUsageStrings();
  const language = useLanguage();
  const { input_tokens: input, cached_tokens: cached } = totals;
  const facts: readonly (readonly [string, string])[] = [
    [strings.cost, useCost(totals) ?? "–"],
    [strings.tokensIn, formatCount(input, language)],
    [strings.tokensOut, formatCount(totals.output_tokens, language)],
    [strings.cached, input > 0 ? formatPercent(cached / input, language) : "–"],
    [strings.calls, formatCount(totals.calls, language)],
  ];
  return (
    <div>
      <dl className="flex flex-wrap gap-px overflow-hidden rounded-box border border-line bg-line">
        {facts.map(([name, value]) => (
          <div key={name} className="grow basis-[7.5rem] bg-paper px-4 py-3">
            <dt className="text-small text-faint">{name}</dt>
            <dd className="mt-1 text-title font-semibold tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
      {totals.unpriced_tokens > 0 && totals.calls > 0 && (
        <p className="mt-2 text-small text-faint">
          {strings.costUnknown}: {strings.unpriced(formatCount(totals.unpriced_tokens, language))}
        </p>
      )}
    </div>
  );
}

/** Return the cost as text: all of it, or what is known. */
function useCost(tokens: Pick<ConsoleUsage["totals"], "cost" | "known_costs">): string | null {
  const language = useLanguage();
  const costs = tokens.cost ? [tokens.cost] : tokens.known_costs.filter(({ amount }) => Number(amount) > 0);
  return costs.length === 0 ? null : costs.map((each) => formatCost(each, language)).join(" + ");
}

function Days({ usage: { days } }: { usage: ConsoleUsage }) {
  const most = Math.max(...days.map(({ total_tokens }) => total_tokens), 1);
  return (
    <ol className="flex h-36 items-stretch gap-px rounded-box border border-line px-3 pt-3 pb-2 wide:gap-1">
      {days.map((day) => (
        <Day key={day.name} day={day} most={most} />
      ))}
    </ol>
  );
}

function Day({ day, most }: { day: ConsoleUsage["days"][number]; most: number }) {
  const strings = useUsageStrings();
  const language = useLanguage();
  const cost = useCost(day);
  // Noon avoids a shift by the time zone.
  const date = new Date(`${day.name}T12:00`);
  const name = new Intl.DateTimeFormat(language, { month: "short", day: "numeric" }).format(date);
  const text = strings.dayUsage(name, formatCount(day.total_tokens, language), cost);
  return (
    <li title={text} className="group flex min-w-0 flex-1 flex-col items-center gap-1">
      <span className="sr-only">{text}</span>
      <span aria-hidden className="flex min-h-0 w-full flex-1 items-end justify-center">
        <span
          style={{ height: `${(day.total_tokens / most) * 100}%` }}
          className={`w-full max-w-8 rounded-t-[3px] group-hover:bg-accent-strong ${day.total_tokens > 0 ? "min-h-0.5 bg-accent" : ""}`}
        />
      </span>
      <span aria-hidden className="h-4 shrink-0 text-small text-faint tabular-nums">
        {date.getDate() % 5 === 0 || date.getDate() === 1 ? date.getDate() : ""}
      </span>
    </li>
  );
}

interface Row {
  readonly key: string;
  readonly label: ReactNode;
  readonly tokens: Tokens & Pick<ConsoleUsage["totals"], "known_costs">;
}

function Shares({ head, rows }: { head: string; rows: readonly Row[] }) {
  const strings = useUsageStrings();
  return (
    <div className="overflow-x-auto rounded-box border border-line">
      <table className="w-full">
        <thead className="text-small text-faint">
          <tr className="border-b border-line">
            <th className="px-4 py-2 text-left font-normal">{head}</th>
            <th className="px-2 py-2 text-right font-normal whitespace-nowrap">{strings.tokens}</th>
            <th className="px-4 py-2 text-right font-normal whitespace-nowrap">{strings.cost}</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {rows.map((row) => (
            <ShareRow key={row.key} row={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ShareRow({ row: { label, tokens } }: { row: Row }) {
  const language = useLanguage();
  const cost = useCost(tokens);
  return (
    <tr>
      <td className="max-w-0 truncate px-4 py-2 w-full">{label}</td>
      <td className="px-2 py-2 text-right tabular-nums">{formatCount(tokens.total_tokens, language)}</td>
      <td className="px-4 py-2 text-right whitespace-nowrap tabular-nums">{cost ?? "–"}</td>
    </tr>
  );
}

function ModelName({ name }: { name: string }) {
  return useModelName(name);
}

function ThreadName({ threadId, title }: { threadId: string | null; title: string | null }) {
  const strings = useUsageStrings();
  const common = useStrings();
  if (threadId === null) return <span className="text-faint">{strings.deletedThreads}</span>;
  return (
    <Link to="/threads/$threadId" params={{ threadId }} className="hover:underline">
      {title ?? common.untitled}
    </Link>
  );
}

function Budget({ limits }: { limits: ConsoleUsage["run_limits"] }) {
  const strings = useUsageStrings();
  const language = useLanguage();
  const { max_tokens: tokens, max_cost: cost } = limits;
  const parts = [
    ...(tokens === null ? [] : [strings.maxTokens(formatCount(tokens, language))]),
    ...(cost === null ? [] : [formatCost(cost, language)]),
  ];
  return (
    <Section title={strings.budget}>
      <div className="rounded-box border border-line px-4 py-3">
        {parts.length > 0 && <p className="font-medium">{parts.join(" · ")}</p>}
        <p className="text-small text-faint">
          <InlineCode text={parts.length > 0 ? strings.budgetHint : strings.budgetNone} />
        </p>
      </div>
    </Section>
  );
}
