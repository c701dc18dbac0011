/** Approval rules. */

import { useQuery } from "@tanstack/react-query";
import type { Outcome, Policy, Rule } from "@/api/tools";
import { useToolStrings } from "@/features/tools/useTools";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useServer } from "@/state/server";
import { ErrorState, LoadingState } from "@/ui/states";

export function PolicyRules() {
  const strings = useToolStrings();
  const server = useServer();
  const policy = useQuery({ queryKey: ["policy"], queryFn: server.policy });
  return (
    <section aria-label={strings.policy}>
      <h2 className="mb-1 text-title font-semibold">{strings.policy}</h2>
      {policy.isPending ? (
        <LoadingState />
      ) : policy.isError ? (
        <ErrorState text={strings.policyUnavailable} onRetry={() => void policy.refetch()} />
      ) : policy.data.enabled ? (
        <Rules policy={policy.data} />
      ) : (
        <p className="rounded-box bg-warning-tint px-3 py-2 text-warning">{strings.policyOff}</p>
      )}
    </section>
  );
}

function Rules({ policy: { rules, otherwise } }: { policy: Policy }) {
  const strings = useToolStrings();
  return (
    <>
      <p className="mb-3 text-soft">{strings.policyHint}</p>
      <ol className="divide-y divide-line rounded-box border border-line">
        {rules.map((rule) => (
          <Row key={`${rule.is_shipped} ${rule.name}`} rule={rule} />
        ))}
        <li className="px-4 py-2 text-soft">
          {strings.otherwise} {strings.otherwiseOutcomes[otherwise]}
        </li>
      </ol>
    </>
  );
}

const LOOKS: Readonly<Record<Outcome, string>> = {
  allow: "text-done",
  ask: "text-warning",
  deny: "text-error",
};

function Row({ rule }: { rule: Rule }) {
  const strings = useToolStrings();
  const reasons: Readonly<Record<string, string>> = useStrings().policyReasons;
  return (
    <li className="px-4 py-2">
      <p className="flex flex-wrap items-baseline gap-x-3">
        <span className={`font-medium ${LOOKS[rule.outcome]}`}>{strings.outcomes[rule.outcome]}</span>
        <code className="font-mono text-small">{rule.name}</code>
        <span className="ml-auto text-small text-faint">
          {rule.is_shipped ? strings.shipped : strings.yours}
        </span>
      </p>
      <p className="text-small text-soft [overflow-wrap:anywhere]">
        {rule.is_shipped ? (reasons[rule.name] ?? sentence(rule.reason)) : sentence(rule.reason)}
      </p>
      <details className="text-small">
        <summary className="cursor-pointer text-faint">{strings.conditions}</summary>
        <pre className="mt-1 overflow-x-auto rounded-box bg-rail p-2 font-mono whitespace-pre-wrap [overflow-wrap:anywhere]">
          {JSON.stringify(rule.conditions, null, 1)}
        </pre>
      </details>
    </li>
  );
}
