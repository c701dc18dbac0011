/** Passkeys and linked logins of the current user. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { type Passkey, supportsPasskeys } from "@/api/accounts";
import { ApiError } from "@/api/http";
import { Fact, Section } from "@/features/settings/Section";
import { useAccountStrings } from "@/i18n/accounts";
import { useLanguage } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Line } from "@/ui/fields";

export function LoginMethods({ isAdmin }: { isAdmin: boolean }) {
  const strings = useAccountStrings();
  const { accounts } = useServer();
  const ways = useQuery({ queryKey: ["providers"], queryFn: accounts.providers });
  const identities = useQuery({ queryKey: ["identities"], queryFn: accounts.identities });
  if (ways.data === undefined) return null;
  const reason = new URLSearchParams(location.search).get("problem");
  const problems: Readonly<Record<string, string>> = strings.signOnProblems;
  const linked = identities.data ?? [];
  return (
    <>
      {reason !== null && (
        <p role="alert" className="text-error">
          {problems[reason] ?? strings.signOnProblems.failed}
        </p>
      )}
      {ways.data.passkeys && supportsPasskeys() && <Passkeys />}
      {(ways.data.providers.length > 0 || linked.length > 0) && (
        <Identities providers={ways.data.providers} isAdmin={isAdmin} />
      )}
    </>
  );
}

function useUseOf() {
  const strings = useAccountStrings();
  const language = useLanguage();
  return (at: string | null) =>
    at === null ? strings.never : strings.lastUsed(formatMoment(new Date(at), language));
}

function Passkeys() {
  const strings = useAccountStrings();
  const { accounts } = useServer();
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const passkeys = useQuery({ queryKey: ["passkeys"], queryFn: accounts.passkeys });
  const add = useMutation({
    mutationFn: () => accounts.addPasskey(name),
    onSuccess: () => setName(""),
    onSettled: () => queries.invalidateQueries({ queryKey: ["passkeys"] }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  return (
    <Section title={strings.passkeys}>
      {passkeys.data?.length === 0 && <Fact name={strings.noPasskeys}>{null}</Fact>}
      {passkeys.data?.map((each) => (
        <PasskeyRow key={each.passkey_id} passkey={each} />
      ))}
      <form onSubmit={submit} className="flex flex-col gap-4 p-4">
        <Line name={strings.passkeyName} hint={strings.passkeysHint} value={name} onChange={setName} />
        {add.error && (
          <p role="alert">{add.error instanceof ApiError ? add.error.message : strings.passkeyFailed}</p>
        )}
        <Button type="submit" disabled={add.isPending || name.trim() === ""} className="self-start">
          {strings.addPasskey}
        </Button>
      </form>
    </Section>
  );
}

function PasskeyRow({ passkey }: { passkey: Passkey }) {
  const strings = useAccountStrings();
  const describeUse = useUseOf();
  const { accounts } = useServer();
  const queries = useQueryClient();
  const onSettled = () => queries.invalidateQueries({ queryKey: ["passkeys"] });
  const rename = useMutation({
    mutationFn: (name: string) => accounts.renamePasskey(passkey.passkey_id, name),
    onSettled,
  });
  const remove = useMutation({ mutationFn: () => accounts.removePasskey(passkey.passkey_id), onSettled });
  const problem = rename.error ?? remove.error;
  const ask = () => {
    const name = window.prompt(strings.passkeyName, passkey.name);
    if (name?.trim()) rename.mutate(name);
  };
  return (
    <Fact
      name={
        <>
          <p className="[overflow-wrap:anywhere]">{passkey.name}</p>
          <p className="text-small text-faint">
            {passkey.is_backed_up ? strings.synced : strings.thisDevice} · {describeUse(passkey.last_used_at)}
          </p>
          {problem && <p role="alert">{problem.message}</p>}
        </>
      }
    >
      <div className="flex flex-wrap gap-2">
        <Button onClick={ask}>{strings.rename}</Button>
        <Button onClick={() => remove.mutate()}>{strings.remove}</Button>
      </div>
    </Fact>
  );
}

interface IdentitiesProps {
  readonly providers: readonly { name: string; label: string }[];
  /** Administrators cannot link identities. */
  readonly isAdmin: boolean;
}

function Identities({ providers, isAdmin }: IdentitiesProps) {
  const strings = useAccountStrings();
  const describeUse = useUseOf();
  const { accounts } = useServer();
  const queries = useQueryClient();
  const identities = useQuery({ queryKey: ["identities"], queryFn: accounts.identities });
  const remove = useMutation({
    mutationFn: accounts.removeIdentity,
    onSettled: () => queries.invalidateQueries({ queryKey: ["identities"] }),
  });
  const link = useMutation({
    mutationFn: accounts.beginLink,
    onSuccess: ({ url }) => location.assign(url),
  });
  const problem = remove.error ?? link.error;
  return (
    <Section title={strings.identities}>
      {identities.data?.length === 0 && <Fact name={strings.noIdentities}>{null}</Fact>}
      {identities.data?.map((each) => (
        <Fact
          key={each.identity_id}
          name={
            <>
              <p className="[overflow-wrap:anywhere]">{each.email}</p>
              <p className="text-small text-faint [overflow-wrap:anywhere]">
                {each.issuer} · {describeUse(each.last_used_at)}
              </p>
            </>
          }
        >
          <Button onClick={() => remove.mutate(each.identity_id)}>{strings.unlink}</Button>
        </Fact>
      ))}
      <div className="flex flex-col gap-2 p-4">
        <p className="text-small text-soft">
          {isAdmin ? strings.signOnProblems.admin : strings.identitiesHint}
        </p>
        {problem && <p role="alert">{problem.message}</p>}
        <div className="flex flex-wrap gap-2">
          {(isAdmin ? [] : providers).map((each) => (
            <Button key={each.name} onClick={() => link.mutate(each.name)}>
              {strings.link(each.label)}
            </Button>
          ))}
        </div>
      </div>
    </Section>
  );
}
