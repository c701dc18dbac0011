/** People and teams that a thread, an agent or a skill is shared with. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Trash2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import { sentence } from "@/i18n/i18n";
import { useTeamStrings } from "@/i18n/teams";
import type { Access, Grant, Grantee, Shareable } from "@/state/server";
import { useTeamsApi } from "@/state/teams";
import { Button } from "@/ui/Button";
import { Choice, INPUT, Line } from "@/ui/fields";
import { IconButton } from "@/ui/IconButton";

const PERSON = "";

export function Grants({ of }: { of: Shareable }) {
  const strings = useTeamStrings();
  const teams = useTeamsApi();
  const grants = useQuery({ queryKey: keyOf(of), queryFn: () => teams.grants(of) });
  return (
    <section aria-label={strings.people} className="flex flex-col gap-3">
      <h3 className="font-medium">{strings.people}</h3>
      <p className="text-small text-faint">{strings.shareHints[of.kind]}</p>
      <NewGrant of={of} />
      {grants.data !== undefined && grants.data.length > 0 && (
        <ul aria-label={strings.sharedWith} className="divide-y divide-line rounded-box border border-line">
          {grants.data.map((grant) => (
            <GrantRow key={grant.grant_id} grant={grant} of={of} />
          ))}
        </ul>
      )}
    </section>
  );
}

function NewGrant({ of }: { of: Shareable }) {
  const strings = useTeamStrings();
  const teams = useTeamsApi();
  const own = useQuery({ queryKey: ["teams"], queryFn: teams.list });
  const [team, setTeam] = useState(PERSON);
  const [email, setEmail] = useState("");
  const [access, setAccess] = useState<Access>("read");
  const put = usePut(of);
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

function GrantRow({ grant, of }: { grant: Grant; of: Shareable }) {
  const strings = useTeamStrings();
  const teams = useTeamsApi();
  const queries = useQueryClient();
  const put = usePut(of);
  const ending = useMutation({
    mutationFn: () => teams.revoke(of, grant.grant_id),
    onSettled: () => queries.invalidateQueries({ queryKey: keyOf(of) }),
  });
  const to: Grantee = grant.team_id === null ? { email: grant.name } : { team_id: grant.team_id };
  const problem = put.error ?? ending.error;
  return (
    <li className="flex flex-wrap items-center gap-2 py-1 pr-1 pl-3">
      <span className="min-w-0 flex-1 basis-44 [overflow-wrap:anywhere]">{grant.name}</span>
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

function usePut(of: Shareable) {
  const teams = useTeamsApi();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ to, access }: { to: Grantee; access: Access }) => teams.putGrant(of, to, access),
    onSettled: () => queries.invalidateQueries({ queryKey: keyOf(of) }),
  });
}

function keyOf({ kind, id }: Shareable): readonly string[] {
  return [kind, id, "grants"];
}
