/** Teams of the person: members, and how to add, remove and leave. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import type { Team, TeamRole } from "@/api/teams";
import { Fact, Section } from "@/features/settings/Section";
import { sentence } from "@/i18n/i18n";
import { useTeamStrings } from "@/i18n/teams";
import { PageFrame } from "@/layout/PageFrame";
import { useServer } from "@/state/server";
import { useTeamsApi } from "@/state/teams";
import { Button } from "@/ui/Button";
import { Choice, Line } from "@/ui/fields";

const TEAMS_KEY = ["teams"];

export function TeamsPage() {
  const strings = useTeamStrings();
  const { accounts } = useServer();
  const teams = useTeamsApi();
  const hasPeople = useQuery({ queryKey: ["me"], queryFn: accounts.me }).data?.login_required;
  const own = useQuery({
    queryKey: TEAMS_KEY,
    queryFn: teams.list,
    retry: false,
    enabled: hasPeople === true,
  });
  if (hasPeople === undefined) return <PageFrame title={strings.teams}>{null}</PageFrame>;
  if (!hasPeople) {
    return (
      <PageFrame title={strings.teams}>
        <p className="text-soft">
          {strings.noAccounts}{" "}
          <Link to="/settings" className="text-accent underline">
            {strings.noAccountsGuide}
          </Link>
        </p>
      </PageFrame>
    );
  }
  return (
    <PageFrame title={strings.teams}>
      <div className="flex flex-col gap-8">
        <Section title={strings.teams}>
          {own.data?.length === 0 && <Fact name={strings.noTeams}>{null}</Fact>}
          {own.data?.map((team) => (
            <TeamRow key={team.team_id} team={team} />
          ))}
          <NewTeam />
        </Section>
      </div>
    </PageFrame>
  );
}

function useChange<Input, Output>(change: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSettled: () => queries.invalidateQueries({ queryKey: TEAMS_KEY }),
  });
}

function NewTeam() {
  const strings = useTeamStrings();
  const teams = useTeamsApi();
  const [name, setName] = useState("");
  const create = useChange(() => teams.create(name));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate(undefined, { onSuccess: () => setName("") });
  };
  return (
    <form onSubmit={submit} className="flex flex-wrap items-end gap-3 p-4">
      <p className="basis-full text-small text-faint">{strings.teamsHint}</p>
      <Line name={strings.name} value={name} onChange={setName} />
      <Button primary type="submit" disabled={create.isPending || name.trim() === ""}>
        {strings.create}
      </Button>
      <Problem error={create.error} />
    </form>
  );
}

function Problem({ error }: { error: Error | null }) {
  if (error === null) return null;
  return (
    <p role="alert" className="basis-full text-small text-error">
      {sentence(error.message)}
    </p>
  );
}

function TeamRow({ team }: { team: Team }) {
  const strings = useTeamStrings();
  const { accounts } = useServer();
  const teams = useTeamsApi();
  const [isOpen, setOpen] = useState(false);
  const me = useQuery({ queryKey: ["me"], queryFn: accounts.me });
  const leave = useChange((id: string) => teams.removeMember(team.team_id, id));
  const remove = useChange(() => teams.remove(team.team_id));
  return (
    <Fact
      name={
        <>
          <p className="[overflow-wrap:anywhere]">{team.name}</p>
          <p className="text-small text-faint">
            {team.role !== null && `${strings.roles[team.role]} · `}
            {strings.members(team.members)}
          </p>
          <Problem error={leave.error ?? remove.error} />
        </>
      }
    >
      <div className="flex flex-wrap gap-2">
        <Button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {strings.showMembers}
        </Button>
        {me.data && <Button onClick={() => leave.mutate(me.data.id)}>{strings.leave}</Button>}
        {team.role === "owner" && (
          <Button
            onClick={() => {
              if (window.confirm(strings.confirmDelete(team.name))) remove.mutate(undefined);
            }}
          >
            {strings.delete}
          </Button>
        )}
      </div>
      {isOpen && <Members team={team} />}
    </Fact>
  );
}

function Members({ team }: { team: Team }) {
  const strings = useTeamStrings();
  const teams = useTeamsApi();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<TeamRole>("member");
  const members = useQuery({
    queryKey: [...TEAMS_KEY, team.team_id],
    queryFn: () => teams.members(team.team_id),
  });
  const add = useChange(() => teams.putMember(team.team_id, email.trim(), role));
  const remove = useChange((id: string) => teams.removeMember(team.team_id, id));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate(undefined, { onSuccess: () => setEmail("") });
  };
  return (
    <div className="flex basis-full flex-col gap-3 py-2">
      <ul aria-label={strings.membersOf(team.name)} className="divide-y divide-line">
        {members.data?.map((member) => (
          <li key={member.user_id} className="flex items-center gap-3 py-1">
            <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">{member.email}</span>
            <span className="text-small text-faint">{strings.roles[member.role]}</span>
            {team.role === "owner" && (
              <Button
                aria-label={strings.removeMember(member.email)}
                onClick={() => remove.mutate(member.user_id)}
              >
                {strings.remove}
              </Button>
            )}
          </li>
        ))}
      </ul>
      {team.role === "owner" && (
        <form onSubmit={submit} className="flex flex-wrap items-end gap-3">
          <Line name={strings.email} value={email} onChange={setEmail} />
          <Choice<TeamRole> name={strings.role} value={role} options={strings.roles} onChoose={setRole} />
          <Button type="submit" disabled={add.isPending || email.trim() === ""}>
            {strings.add}
          </Button>
        </form>
      )}
      <Problem error={add.error ?? remove.error} />
    </div>
  );
}
