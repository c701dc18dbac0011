/** Tests of a skill: run on request, with a result per case. */

import { useMutation } from "@tanstack/react-query";
import { CircleCheck, CircleX } from "lucide-react";
import type { SkillCase, SkillWithContent } from "@/api/skills";
import { sentence } from "@/i18n/i18n";
import { useTrialStrings } from "@/i18n/trials";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";

const TEST_FILE = /^tests\/[^/]+\.ya?ml$/;

export function SkillTests({ skill }: { skill: SkillWithContent }) {
  const strings = useTrialStrings();
  const server = useServer();
  const testing = useMutation({ networkMode: "always", mutationFn: () => server.testSkill(skill.name) });
  const hasTests = skill.files.some(({ path }) => TEST_FILE.test(path));
  return (
    <section aria-label={strings.tests} className="mt-6 border-t border-line pt-6">
      <h2 className="mb-1 text-title font-semibold">{strings.tests}</h2>
      {hasTests ? (
        <>
          <p className="mb-3 text-soft">{strings.testsHint}</p>
          <Button disabled={testing.isPending} onClick={() => testing.mutate()}>
            {testing.isPending ? strings.testing : strings.runTests}
          </Button>
        </>
      ) : (
        <p className="text-faint">{strings.noTests}</p>
      )}
      {testing.isError && (
        <p role="alert" className="mt-3 text-error [overflow-wrap:anywhere]">
          {strings.testsFailed} {sentence(testing.error.message)}
        </p>
      )}
      {testing.isSuccess && (
        <div role="status" className="mt-3">
          {testing.data.problems.map((problem) => (
            <p key={problem} className="whitespace-pre-wrap text-error [overflow-wrap:anywhere]">
              {strings.testsFailed} {sentence(problem)}
            </p>
          ))}
          <Results cases={testing.data.cases} />
        </div>
      )}
    </section>
  );
}

function Results({ cases }: { cases: readonly SkillCase[] }) {
  const strings = useTrialStrings();
  if (cases.length === 0) return null;
  return (
    <>
      <p className="mb-2 font-medium">
        {strings.summary(cases.filter(({ passed }) => passed).length, cases.length)}
      </p>
      <ul className="divide-y divide-line rounded-box border border-line">
        {cases.map((one) => (
          <Row key={one.name} one={one} />
        ))}
      </ul>
    </>
  );
}

function Row({ one: { name, passed, failures, outputs, seconds } }: { one: SkillCase }) {
  const strings = useTrialStrings();
  const Icon = passed ? CircleCheck : CircleX;
  return (
    <li className="px-4 py-2">
      <p className="flex items-center gap-2">
        <Icon aria-hidden className={`size-4 shrink-0 ${passed ? "text-done" : "text-error"}`} />
        <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">{name}</span>
        <span className={`text-small ${passed ? "text-done" : "text-error"}`}>
          {passed ? strings.passed : strings.failed}
        </span>
        <span className="text-small text-faint tabular-nums">{strings.took(seconds.toFixed(1))}</span>
      </p>
      {failures.map((failure) => (
        <p key={failure} className="mt-1 text-small whitespace-pre-wrap text-error [overflow-wrap:anywhere]">
          {sentence(failure)}
        </p>
      ))}
      {outputs.length > 0 && (
        <details className="mt-1 text-small">
          <summary className="cursor-pointer text-faint">{strings.outputs}</summary>
          <pre className="mt-1 rounded-box bg-rail p-2 font-mono whitespace-pre-wrap [overflow-wrap:anywhere]">
            {outputs.join("\n\n")}
          </pre>
        </details>
      )}
    </li>
  );
}
