/** Address and revision of a skill installed from a URL, and its updates. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import type { SkillUpdateCheck, SkillSource as Source } from "@/api/skills";
import { Diff } from "@/features/skills/Diff";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";

/** Shows nothing for a skill without a source. */
export function SkillSource({ name }: { name: string }) {
  const server = useServer();
  const custom = useQuery({
    queryKey: ["skills", name, "source"],
    queryFn: () => server.customSkill(name),
    // A skill without a source does not get one while it is shown.
    enabled: ({ state }) => state.data?.source !== null,
    gcTime: 0,
  });
  const source = custom.data?.source ?? null;
  return source && <SourceSection name={name} source={source} />;
}

function SourceSection({ name, source }: { name: string; source: Source }) {
  const { skill: strings } = useStrings();
  const check = useRef<HTMLButtonElement>(null);
  const { checking, updating } = useUpdates(name, () => check.current?.focus());
  // An update or its undo makes the comparison outdated.
  const found = checking.data?.installed_revision === source.revision ? checking.data : null;
  const problem = checking.error ?? updating.error;
  return (
    <section aria-label={strings.source} className="mt-6 rounded-box border border-line p-4">
      <div className="mb-2 flex items-center gap-3">
        <h2 className="min-w-0 flex-1 font-medium">{strings.source}</h2>
        <Button ref={check} disabled={checking.isPending} onClick={() => checking.mutate()}>
          {checking.isPending ? strings.checking : strings.check}
        </Button>
      </div>
      <Facts source={source} />
      <p role="status" className="mt-3 empty:hidden">
        {found !== null
          ? found.diff === ""
            ? strings.upToDate
            : strings.updateFound
          : updating.isSuccess && updating.variables === source.revision && strings.updated}
      </p>
      {found !== null && found.diff !== "" && (
        <Update found={found} busy={updating.isPending} onUpdate={updating.mutate} />
      )}
      {problem !== null && (
        <p role="alert" className="mt-3 text-error [overflow-wrap:anywhere]">
          {checking.isError ? strings.notChecked : strings.notUpdated} {sentence(problem.message)}
        </p>
      )}
    </section>
  );
}

function useUpdates(name: string, onUpdated: () => void) {
  const server = useServer();
  const queries = useQueryClient();
  const updating = useMutation({
    mutationFn: (revision: string) => server.updateSkill(name, revision),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["skills"] });
      onUpdated();
    },
  });
  const checking = useMutation({
    mutationFn: () => server.checkSkillUpdate(name),
    onMutate: updating.reset,
  });
  return { checking, updating };
}

const ARCHIVE_HASH = "sha256:";

function Facts({ source: { url, ref, folder, revision } }: { source: Source }) {
  const { skill: strings } = useStrings();
  const isArchive = revision.startsWith(ARCHIVE_HASH);
  const facts = [
    [strings.ref, ref],
    [strings.folder, folder],
    [isArchive ? strings.hash : strings.commit, revision.replace(ARCHIVE_HASH, "")],
  ].filter(([, value]) => value);
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-small">
      <dt className="text-faint">{strings.url}</dt>
      <dd className="[overflow-wrap:anywhere]">
        <a href={url} target="_blank" rel="noopener noreferrer" className="text-accent underline">
          {url}
        </a>
      </dd>
      {facts.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-faint">{name}</dt>
          <dd className="font-mono [overflow-wrap:anywhere]">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface UpdateProps {
  readonly found: SkillUpdateCheck;
  readonly busy: boolean;
  readonly onUpdate: (revision: string) => void;
}

function Update({ found: { source, diff }, busy, onUpdate }: UpdateProps) {
  const { skill: strings } = useStrings();
  return (
    <div className="mt-2 flex flex-col items-start gap-3">
      <div className="w-full rounded-box border border-line bg-rail p-3">
        <Diff text={diff} />
      </div>
      {source !== null && (
        <Button primary disabled={busy} onClick={() => onUpdate(source.revision)}>
          {busy ? strings.updating : strings.update}
        </Button>
      )}
    </div>
  );
}
