/** The audit log, for administrators: list, filter, verification and export. */

import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { AuditEntry, AuditPerson } from "@/api/accounts";
import { Fact, Section } from "@/features/settings/Section";
import { type AuditGroup, useAuditStrings } from "@/i18n/audit";
import { useLanguage } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { PageFrame } from "@/layout/PageFrame";
import { useServer } from "@/state/server";
import { Button, buttonLook } from "@/ui/Button";
import { Choice, Line } from "@/ui/fields";

export function AuditPage() {
  const strings = useAuditStrings();
  const { accounts } = useServer();
  return (
    <PageFrame
      title={strings.title}
      actions={
        <a href={accounts.auditExportUrl} download className={buttonLook()}>
          {strings.export}
        </a>
      }
    >
      <div className="flex flex-col gap-8">
        <Verification />
        <Entries />
      </div>
    </PageFrame>
  );
}

function Verification() {
  const strings = useAuditStrings();
  const { accounts } = useServer();
  const [head, setHead] = useState("");
  const verify = useMutation({ mutationFn: () => accounts.verifyAudit(head.trim()) });
  const report = verify.data;
  return (
    <Section title={strings.integrity}>
      <div className="flex flex-col gap-4 p-4">
        <Line name={strings.keptHead} hint={strings.keptHeadHint} value={head} onChange={setHead} mono />
        <Button onClick={() => verify.mutate()} disabled={verify.isPending} className="self-start">
          {strings.verify}
        </Button>
        {verify.error && <p role="alert">{verify.error.message}</p>}
        {report && (
          <div role="status" className="flex flex-col gap-2">
            <p className={report.is_valid ? "" : "text-error"}>
              {report.is_valid ? strings.valid(report.entries) : strings.invalid}
            </p>
            {report.problems.map((problem) => (
              <p key={`${problem.seq} ${problem.reason}`} className="text-small text-error">
                {strings.problem(problem.seq, problem.reason)}
              </p>
            ))}
            <p className="text-small text-faint">{strings.head}</p>
            <p className="font-mono text-small [overflow-wrap:anywhere]">{report.head}</p>
          </div>
        )}
      </div>
    </Section>
  );
}

function Entries() {
  const strings = useAuditStrings();
  const { accounts } = useServer();
  const [group, setGroup] = useState<AuditGroup>("all");
  const [person, setPerson] = useState("");
  const users = useQuery({ queryKey: ["users"], queryFn: accounts.users, retry: false });
  const entries = useInfiniteQuery({
    queryKey: ["audit", group, person],
    queryFn: ({ pageParam }) => accounts.audit(group === "all" ? "" : group, person, pageParam),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next,
    retry: false,
  });
  const people = Object.fromEntries([
    ["", strings.anyone],
    ...(users.data ?? []).map((user) => [user.user_id, user.email]),
  ]) as Record<string, string>;
  const found = entries.data?.pages.flatMap((page) => page.entries) ?? [];
  return (
    <Section title={strings.entries}>
      <div className="flex flex-wrap gap-4 p-4">
        <Choice name={strings.kind} value={group} options={strings.groups} onChoose={setGroup} />
        <Choice name={strings.person} value={person} options={people} onChoose={setPerson} />
      </div>
      {entries.isError && (
        <p role="alert" className="p-4">
          {strings.adminOnly}
        </p>
      )}
      {entries.isSuccess && found.length === 0 && <Fact name={strings.none}>{null}</Fact>}
      {found.map((entry) => (
        <EntryRow key={entry.seq} entry={entry} />
      ))}
      {entries.hasNextPage && (
        <div className="p-4">
          <Button onClick={() => entries.fetchNextPage()} disabled={entries.isFetchingNextPage}>
            {strings.more}
          </Button>
        </div>
      )}
    </Section>
  );
}

function EntryRow({ entry }: { entry: AuditEntry }) {
  const strings = useAuditStrings();
  const language = useLanguage();
  const nameOf = (person: AuditPerson) => person.email ?? strings.deletedPerson(person.id);
  const actor = entry.actor === null ? strings.server : nameOf(entry.actor);
  const isOther = entry.subject !== null && entry.subject.id !== entry.actor?.id;
  const details = Object.entries(entry.details)
    .map(([name, value]) => `${strings.details[name] ?? name}: ${value}`)
    .join(" · ");
  return (
    <Fact
      name={
        <>
          <p>
            {strings.kinds[entry.kind] ?? entry.kind}
            {entry.outcome !== "success" && (
              <span className={entry.outcome === "failure" ? "text-error" : "text-soft"}>
                {" "}
                · {strings.outcomes[entry.outcome] ?? entry.outcome}
              </span>
            )}
          </p>
          <p className="text-small text-faint [overflow-wrap:anywhere]">
            {actor}
            {isOther && entry.subject && ` → ${nameOf(entry.subject)}`}
          </p>
          <p className="text-small text-faint [overflow-wrap:anywhere]">
            {entry.is_erased ? strings.erased : details}
          </p>
        </>
      }
    >
      <span className="text-small text-soft">
        #{entry.seq} · {formatMoment(new Date(entry.at), language)}
      </span>
    </Fact>
  );
}
