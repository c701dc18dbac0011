/** Links from the settings to account and users, or to the first account. */

import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fact, Section } from "@/features/settings/Section";
import { useAccountStrings } from "@/i18n/accounts";
import { useTeamStrings } from "@/i18n/teams";
import { useServer } from "@/state/server";
import { Button, buttonLook } from "@/ui/Button";

export function AccountSection() {
  const strings = useAccountStrings();
  const teamStrings = useTeamStrings();
  const { accounts } = useServer();
  const me = useQuery({ queryKey: ["me"], queryFn: accounts.me });
  const begin = useMutation({
    mutationFn: accounts.createSetupLink,
    onSuccess: ({ path }) => location.assign(path),
  });
  if (me.data === undefined) return null;
  if (!me.data.login_required)
    return (
      <Section title={strings.account}>
        <Fact name={strings.noLogin}>
          <Button onClick={() => begin.mutate()}>{strings.requireLogin}</Button>
        </Fact>
      </Section>
    );
  return (
    <Section title={strings.account}>
      <Fact name={strings.manageAccount}>
        <Link to="/account" className={buttonLook()}>
          {strings.account}
        </Link>
      </Fact>
      <Fact name={teamStrings.teamsHint}>
        <Link to="/teams" className={buttonLook()}>
          {teamStrings.teams}
        </Link>
      </Fact>
      {me.data.system_role === "admin" && (
        <>
          <Fact name={strings.manageUsers}>
            <Link to="/users" className={buttonLook()}>
              {strings.users}
            </Link>
          </Fact>
          <Fact name={strings.auditHint}>
            <Link to="/audit" className={buttonLook()}>
              {strings.audit}
            </Link>
          </Fact>
        </>
      )}
    </Section>
  );
}
