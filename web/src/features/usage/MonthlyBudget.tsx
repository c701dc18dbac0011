/** Spending of this month and today, and what is left of the limit that the user has set. */

import { useQuery } from "@tanstack/react-query";
import type { ConsoleUsage } from "@/api/usage";
import { useLanguage } from "@/i18n/context";
import { formatCost } from "@/i18n/format";
import { useUsageStrings } from "@/i18n/usage";
import { useActions, usePage } from "@/state/context";
import { useServer } from "@/state/server";
import { Field, INPUT } from "@/ui/fields";

type Spending = Pick<ConsoleUsage["totals"], "cost" | "known_costs">;

export function MonthlyBudget({ zone }: { zone: string }) {
  const strings = useUsageStrings();
  const language = useLanguage();
  const actions = useActions();
  const server = useServer();
  const limit = usePage((page) => page.preferences.monthlyBudget);
  const days = new Date().getDate();
  const usage = useQuery({
    queryKey: ["usage", days, zone],
    queryFn: () => server.usage(days, zone),
    staleTime: 0,
  });
  if (usage.data === undefined) return null;
  const { totals, days: each } = usage.data;
  const currency = costsOf(totals)[0]?.currency ?? "USD";
  const show = (amount: number) => formatCost({ amount: String(amount), currency }, language);
  const spent = amountOf(totals, currency);
  const today = each.at(-1);
  const facts: readonly (readonly [string, string])[] = [
    [strings.spentToday, show(today === undefined ? 0 : amountOf(today, currency))],
    [strings.spentMonth, show(spent)],
    ...(limit === null
      ? []
      : [[spent > limit ? strings.over : strings.left, show(Math.abs(limit - spent))] as const]),
  ];
  return (
    <div className="flex flex-col gap-3 rounded-box border border-line px-4 py-3">
      <dl className="flex flex-wrap gap-x-8 gap-y-2">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt className="text-small text-faint">{name}</dt>
            <dd className="font-semibold tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
      {limit !== null && (
        <meter
          aria-label={strings.spentOf(show(spent), show(limit))}
          className="h-2 w-full"
          min={0}
          max={Math.max(limit, 0.01)}
          high={limit * 0.9}
          optimum={0}
          value={Math.min(spent, limit)}
        />
      )}
      <Field name={strings.limit(currency)} hint={strings.limitHint}>
        {(ids) => (
          <input
            {...ids}
            type="number"
            min={0}
            step="any"
            inputMode="decimal"
            defaultValue={limit ?? ""}
            onChange={({ target }) => {
              const amount = target.valueAsNumber;
              actions.prefer({ monthlyBudget: Number.isFinite(amount) && amount >= 0 ? amount : null });
            }}
            className={`${INPUT} max-w-48`}
          />
        )}
      </Field>
    </div>
  );
}

function costsOf({ cost, known_costs }: Spending): ConsoleUsage["totals"]["known_costs"] {
  return cost ? [cost] : known_costs;
}

function amountOf(spending: Spending, currency: string): number {
  return costsOf(spending)
    .filter((each) => each.currency === currency)
    .reduce((sum, { amount }) => sum + Number(amount), 0);
}
