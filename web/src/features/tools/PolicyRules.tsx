/** What is asked before a tool is used. */

import { useQuery } from "@tanstack/react-query";
import type { Outcome, Policy, Rule } from "@/api/tools";
import { useServer } from "@/app/server";
import { Loading, Unshown } from "@/features/panel/states";
import { useToolWords } from "@/features/tools/useTools";
import { sentence } from "@/words/words";

export function PolicyRules() {
  const words = useToolWords();
  const server = useServer();
  const policy = useQuery({ queryKey: ["policy"], queryFn: server.policy });
  return (
    <section aria-label={words.policy}>
      <h2 className="mb-1 text-title font-semibold">{words.policy}</h2>
      {policy.isPending ? (
        <Loading />
      ) : policy.isError ? (
        <Unshown text={words.policyUnavailable} onRetry={() => void policy.refetch()} />
      ) : policy.data.enabled ? (
        <Rules policy={policy.data} />
      ) : (
        <p className="rounded-box bg-warning-tint px-3 py-2 text-warning">{words.policyOff}</p>
      )}
    </section>
  );
}

function Rules({ policy: { rules, otherwise } }: { policy: Policy }) {
  const words = useToolWords();
  return (
    <>
      <p className="mb-3 text-soft">{words.policyHint}</p>
      <ol className="divide-y divide-line rounded-box border border-line">
        {rules.map((rule) => (
          <Row key={`${rule.is_shipped} ${rule.name}`} rule={rule} />
        ))}
        <li className="px-4 py-2 text-soft">
          {words.otherwise} {words.otherwiseOutcomes[otherwise]}
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
  const words = useToolWords();
  return (
    <li className="px-4 py-2">
      <p className="flex flex-wrap items-baseline gap-x-3">
        <span className={`font-medium ${LOOKS[rule.outcome]}`}>{words.outcomes[rule.outcome]}</span>
        <code className="font-mono text-small">{rule.name}</code>
        <span className="ml-auto text-small text-faint">{rule.is_shipped ? words.shipped : words.yours}</span>
      </p>
      <p className="text-small text-soft [overflow-wrap:anywhere]">{sentence(rule.reason)}</p>
      <details className="text-small">
        <summary className="cursor-pointer text-faint">{words.conditions}</summary>
        <pre className="mt-1 overflow-x-auto rounded-box bg-rail p-2 font-mono whitespace-pre-wrap [overflow-wrap:anywhere]">
          {JSON.stringify(rule.conditions, null, 1)}
        </pre>
      </details>
    </li>
  );
}
