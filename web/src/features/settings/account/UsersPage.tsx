/** Accounts and invitations, for administrators. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { NewLink, Role, User } from "@/api/accounts";
import { OneTimeSecret } from "@/features/settings/account/OneTimeSecret";
import { UserQuotaForm } from "@/features/settings/account/Quota";
import { ReadThread } from "@/features/settings/account/ReadThread";
import { Fact, Section } from "@/features/settings/Section";
import { useAccountStrings } from "@/i18n/accounts";
import { useLanguage } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { PageFrame } from "@/layout/PageFrame";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Choice, Line } from "@/ui/fields";

const USERS_KEY = ["users"];
const INVITATIONS_KEY = ["invitations"];

export function UsersPage() {
  const strings = useAccountStrings();
  const { accounts } = useServer();
  const users = useQuery({ queryKey: USERS_KEY, queryFn: accounts.users, retry: false });
  return (
    <PageFrame title={strings.users}>
      {users.isError && <p role="alert">{strings.adminOnly}</p>}
      {users.data && (
        <div className="flex flex-col gap-8">
          <Section title={strings.users}>
            {users.data.map((user) => (
              <UserRow key={user.user_id} user={user} />
            ))}
          </Section>
          <Invitations />
          <ReadThread />
        </div>
      )}
    </PageFrame>
  );
}

function useChange<Input, Output>(change: (input: Input) => Promise<Output>, key: readonly string[]) {
  const queries = useQueryClient();
  return useMutation({ mutationFn: change, onSettled: () => queries.invalidateQueries({ queryKey: key }) });
}

function UserRow({ user }: { user: User }) {
  const strings = useAccountStrings();
  const { accounts } = useServer();
  const [link, setLink] = useState<NewLink | null>(null);
  const [isQuotaOpen, setQuotaOpen] = useState(false);
  const change = useChange(
    (changes: { role?: Role; is_active?: boolean }) => accounts.changeUser(user.user_id, changes),
    USERS_KEY,
  );
  const remove = useChange(() => accounts.deleteUser(user.user_id), USERS_KEY);
  const reset = useMutation({ mutationFn: () => accounts.createResetLink(user.user_id), onSuccess: setLink });
  const problem = change.error ?? remove.error ?? reset.error;
  const other: Role = user.role === "admin" ? "user" : "admin";
  return (
    <Fact
      name={
        <>
          <p className="[overflow-wrap:anywhere]">{user.email}</p>
          <p className="text-small text-faint">
            {strings.roles[user.role]}
            {!user.is_active && ` · ${strings.disabled}`}
          </p>
          {problem && (
            <p role="alert" className="text-small text-error">
              {sentence(problem.message)}
            </p>
          )}
          {link && <OneTimeSecret hint={strings.linkOnce} text={location.origin + link.path} />}
        </>
      }
    >
      <div className="flex flex-wrap gap-2">
        <Button onClick={() => change.mutate({ role: other })}>{strings.makeRole[other]}</Button>
        <Button onClick={() => change.mutate({ is_active: !user.is_active })}>
          {user.is_active ? strings.disable : strings.enable}
        </Button>
        <Button onClick={() => reset.mutate()}>{strings.resetLink}</Button>
        <Button aria-expanded={isQuotaOpen} onClick={() => setQuotaOpen(!isQuotaOpen)}>
          {strings.quota}
        </Button>
        <Button
          onClick={() => {
            if (window.confirm(strings.confirmRemove(user.email))) remove.mutate(undefined);
          }}
        >
          {strings.remove}
        </Button>
      </div>
      {isQuotaOpen && <UserQuotaForm userId={user.user_id} onDone={() => setQuotaOpen(false)} />}
    </Fact>
  );
}

function Invitations() {
  const strings = useAccountStrings();
  const language = useLanguage();
  const { accounts } = useServer();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("user");
  const open = useQuery({ queryKey: INVITATIONS_KEY, queryFn: accounts.invitations });
  const withdraw = useChange(accounts.withdrawInvitation, INVITATIONS_KEY);
  const invite = useChange(() => accounts.invite(email.trim() || null, role), INVITATIONS_KEY);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    invite.mutate(undefined, { onSuccess: () => setEmail("") });
  };
  return (
    <Section title={strings.invitations}>
      {open.data?.map((each) => (
        <Fact
          key={each.invitation_id}
          name={
            <>
              <p>{each.email ?? strings.anyAddress}</p>
              <p className="text-small text-faint">
                {strings.roles[each.role]} ·{" "}
                {strings.validUntil(formatMoment(new Date(each.expires_at), language))}
              </p>
            </>
          }
        >
          <Button onClick={() => withdraw.mutate(each.invitation_id)}>{strings.withdraw}</Button>
        </Fact>
      ))}
      <form onSubmit={submit} className="flex flex-col gap-4 p-4">
        <Line name={strings.email} hint={strings.inviteHint} value={email} onChange={setEmail} />
        <Choice name={strings.role} value={role} options={strings.roles} onChoose={setRole} />
        {invite.error && (
          <p role="alert" className="text-small text-error">
            {sentence(invite.error.message)}
          </p>
        )}
        <Button type="submit" disabled={invite.isPending} className="self-start">
          {strings.invite}
        </Button>
        {invite.data && <OneTimeSecret hint={strings.linkOnce} text={location.origin + invite.data.path} />}
      </form>
    </Section>
  );
}
