/** Quota of the current user with what is left, and the form with which administrators set that of a person. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { MyQuota, QuotaLimits } from "@/api/accounts";
import { Fact, Section } from "@/features/settings/Section";
import { useAccountStrings } from "@/i18n/accounts";
import { useLanguage } from "@/i18n/context";
import { formatCost, formatCount, formatMoment } from "@/i18n/format";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Field, INPUT } from "@/ui/fields";

const MB = 1024 * 1024;
/** Share of a limit from which the meter warns. */
const ALMOST = 0.9;
const LIMITS = [
  "tokens_per_day",
  "cost_per_day",
  "concurrent_runs",
  "storage_mb",
  "requests_per_second",
] as const;
type Limit = (typeof LIMITS)[number];

interface Part {
  readonly name: string;
  readonly used: number;
  readonly limit: number;
  readonly show: (amount: number) => string;
}

export function QuotaSection() {
  const strings = useAccountStrings();
  const language = useLanguage();
  const { accounts } = useServer();
  const quota = useQuery({ queryKey: ["quota"], queryFn: accounts.quota, staleTime: 0 });
  if (quota.data === undefined) return null;
  const { limits, resets_at } = quota.data;
  const parts = listParts(quota.data, strings.quotas, language);
  return (
    <Section title={strings.quota}>
      {parts.length === 0 && limits.requests_per_second === null && (
        <Fact name={strings.noQuota}>{null}</Fact>
      )}
      {parts.map((part) => (
        <Fact
          key={part.name}
          name={
            <>
              <p>{part.name}</p>
              <p className="text-small text-faint">
                {strings.usedOf(part.show(part.used), part.show(part.limit))}
              </p>
            </>
          }
        >
          <div className="flex flex-col items-end gap-1">
            <span className="tabular-nums">
              {strings.left(part.show(Math.max(0, part.limit - part.used)))}
            </span>
            <meter
              aria-label={part.name}
              className="h-2 w-40"
              min={0}
              max={part.limit}
              high={part.limit * ALMOST}
              optimum={0}
              value={Math.min(part.used, part.limit)}
            />
          </div>
        </Fact>
      ))}
      {limits.requests_per_second !== null && (
        <Fact name={strings.quotas.requests_per_second}>
          <span className="tabular-nums">{formatCount(limits.requests_per_second, language)}</span>
        </Fact>
      )}
      {(limits.tokens_per_day !== null || limits.cost_per_day !== null) && (
        <Fact
          name={
            <span className="text-small text-faint">{strings.resets(formatMoment(resets_at, language))}</span>
          }
        >
          {null}
        </Fact>
      )}
    </Section>
  );
}

/** Return the limits of a person that are used up little by little. */
function listParts(
  quota: MyQuota,
  names: Readonly<Record<Limit, string>>,
  language: ReturnType<typeof useLanguage>,
): readonly Part[] {
  const { limits } = quota;
  const count = (amount: number) => formatCount(amount, language);
  const money = (amount: number) =>
    formatCost({ amount: String(amount), currency: limits.currency }, language);
  const all: readonly (readonly [Limit, number, number | null, Part["show"]])[] = [
    ["tokens_per_day", quota.tokens_today, limits.tokens_per_day, count],
    [
      "cost_per_day",
      Number(quota.cost_today),
      limits.cost_per_day === null ? null : Number(limits.cost_per_day),
      money,
    ],
    ["concurrent_runs", quota.runs, limits.concurrent_runs, count],
    [
      "storage_mb",
      quota.storage_bytes,
      limits.storage_mb === null ? null : limits.storage_mb * MB,
      (bytes) => `${formatCount(Math.ceil(bytes / MB), language)} MB`,
    ],
  ];
  return all.flatMap(([name, used, limit, show]) =>
    limit === null ? [] : [{ name: names[name], used, limit, show }],
  );
}

/** Form with the limits of a person. An empty field is the configured limit, “none” is no limit. */
export function UserQuotaForm({ userId, onDone }: { userId: string; onDone: () => void }) {
  const strings = useAccountStrings();
  const { accounts } = useServer();
  const queries = useQueryClient();
  const key = ["quota", userId];
  const quota = useQuery({ queryKey: key, queryFn: () => accounts.userQuota(userId), staleTime: 0 });
  const [typed, setTyped] = useState<Partial<Record<Limit, string>>>({});
  const save = useMutation({
    mutationFn: (limits: QuotaLimits) => accounts.setUserQuota(userId, limits),
    onSuccess: onDone,
    onSettled: () => queries.invalidateQueries({ queryKey: key }),
  });
  if (quota.data === undefined) return null;
  const { changed, effective } = quota.data;
  const read = (limit: Limit) =>
    typed[limit] ?? (limit in changed ? (changed[limit] ?? "none").toString() : "");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate(readLimits(read));
  };
  return (
    <form onSubmit={submit} className="flex w-full flex-col gap-4 py-2">
      {LIMITS.map((limit) => (
        <Field
          key={limit}
          name={strings.quotas[limit]}
          hint={strings.inEffect((effective[limit] ?? strings.none).toString())}
        >
          {(ids) => (
            <input
              {...ids}
              inputMode="decimal"
              autoComplete="off"
              pattern="none|[0-9]+([.][0-9]+)?"
              title={strings.quotaHint}
              value={read(limit)}
              onChange={({ target }) => setTyped({ ...typed, [limit]: target.value.trim() })}
              className={`${INPUT} max-w-48`}
            />
          )}
        </Field>
      ))}
      <p className="text-small text-faint">{strings.quotaHint}</p>
      {save.error && <p role="alert">{save.error.message}</p>}
      <div className="flex gap-2">
        <Button type="submit" disabled={save.isPending}>
          {strings.saveQuota}
        </Button>
        <Button onClick={onDone}>{strings.cancel}</Button>
      </div>
    </form>
  );
}

/** Return the limits that were typed: an empty field is left out, “none” is null. */
export function readLimits(read: (limit: Limit) => string): QuotaLimits {
  const limits: Record<string, number | string | null> = {};
  for (const limit of LIMITS) {
    const value = read(limit);
    if (value === "none") limits[limit] = null;
    else if (value !== "") limits[limit] = limit === "cost_per_day" ? value : Number(value);
  }
  return limits as QuotaLimits;
}
