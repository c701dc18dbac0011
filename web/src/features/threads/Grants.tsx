/** People and teams that a thread is shared with. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Trash2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import type { Access, Grant, Grantee } from "@/api/teams";
import { sentence } from "@/i18n/i18n";
import { useTeamStrings } from "@/i18n/teams";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Choice, INPUT, Line } from "@/ui/fields";
import { IconButton } from "@/ui/IconButton";

const PERSON = "";

export function Grants({ threadId }: { threadId: string }) {
  const strings = useTeamStrings();
  const { teams } = useServer();
  const grants = useQuery({ queryKey: keyOf(threadId), queryFn: () => teams.grants(threadId) });
  return (
    <section aria-label={strings.people} className="flex flex-col gap-3">
      <h3 className="font-medium">{strings.people}</h3>
      <p className="text-small text-faint">{strings.peopleHint}</p>
      <NewGrant threadId={threadId} />
      {grants.data !== undefined && grants.data.length > 0 && (
        <ul aria-label={strings.sharedWith} className="divide-y divide-line rounded-box border border-line">
          {grants.data.map((grant) => (
            <GrantRow key={grant.grant_id} grant={grant} threadId={threadId} />
          ))}
        </ul>
      )}
    </section>
  );
}

function NewGrant({ threadId }: { threadId: string }) {
  const strings = useTeamStrings();
  const { teams } = useServer();
  const own = useQuery({ queryKey: ["teams"], queryFn: teams.list });
  const [team, setTeam] = useState(PERSON);
  const [email, setEmail] = useState("");
  const [access, setAccess] = useState<Access>("read");
  const put = usePut(threadId);
  const options = Object.fromEntries([
    [PERSON, strings.person],
    ...(own.data ?? []).map((each) => [each.team_id, each.name]),
  ]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const to = team === PERSON ? { email: email.trim() } : { team_id: team };
    put.mutate({ to, access }, { onSuccess: () => setEmail("") });
  };
  return (
    <form onSubmit={submit} className="flex flex-wrap items-end gap-3">
      {(own.data ?? []).length > 0 && (
        <Choice name={strings.with} value={team} options={options} onChoose={setTeam} />
      )}
      {team === PERSON && <Line name={strings.email} value={email} onChange={setEmail} />}
      <Choice<Access> name={strings.access} value={access} options={strings.accesses} onChoose={setAccess} />
      <Button primary type="submit" disabled={put.isPending || (team === PERSON && email.trim() === "")}>
        {strings.share}
      </Button>
      {put.error && (
        <p role="alert" className="basis-full text-small text-error">
          {sentence(put.error.message)}
        </p>
      )}
    </form>
  );
}

function GrantRow({ grant, threadId }: { grant: Grant; threadId: string }) {
  const strings = useTeamStrings();
  const { teams } = useServer();
  const queries = useQueryClient();
  const put = usePut(threadId);
  const ending = useMutation({
    mutationFn: () => teams.revoke(threadId, grant.grant_id),
    onSettled: () => queries.invalidateQueries({ queryKey: keyOf(threadId) }),
  });
  const to: Grantee = grant.team_id === null ? { email: grant.name } : { team_id: grant.team_id };
  const problem = put.error ?? ending.error;
  return (
    <li className="flex flex-wrap items-center gap-2 py-1 pr-1 pl-3">
      <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">{grant.name}</span>
      <select
        aria-label={strings.accessOf(grant.name)}
        value={grant.access}
        onChange={(event) => put.mutate({ to, access: event.target.value as Access })}
        className={INPUT}
      >
        {(["read", "write"] as const).map((each) => (
          <option key={each} value={each}>
            {strings.accesses[each]}
          </option>
        ))}
      </select>
      <IconButton
        icon={Trash2}
        label={strings.stop(grant.name)}
        disabled={ending.isPending}
        onClick={() => ending.mutate()}
      />
      {problem && (
        <p role="alert" className="basis-full text-small text-error">
          {sentence(problem.message)}
        </p>
      )}
    </li>
  );
}

function usePut(threadId: string) {
  const { teams } = useServer();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ to, access }: { to: Grantee; access: Access }) => teams.putGrant(threadId, to, access),
    onSettled: () => queries.invalidateQueries({ queryKey: keyOf(threadId) }),
  });
}

function keyOf(threadId: string): readonly string[] {
  return ["thread", threadId, "grants"];
}
