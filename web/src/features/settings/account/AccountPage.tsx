/** Password, sessions and API tokens of the current user. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import type { TokenScope } from "@/api/accounts";
import { LoginMethods } from "@/features/settings/account/LoginMethods";
import { OneTimeSecret } from "@/features/settings/account/OneTimeSecret";
import { QuotaSection } from "@/features/settings/account/Quota";
import { Fact, Section } from "@/features/settings/Section";
import { useAccountStrings } from "@/i18n/accounts";
import { useLanguage } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { PageFrame } from "@/layout/PageFrame";
import { useServer } from "@/state/server";
import { Button, buttonLook } from "@/ui/Button";
import { Choice, Field, INPUT, Line } from "@/ui/fields";

export function AccountPage() {
  const strings = useAccountStrings();
  const { accounts } = useServer();
  const me = useQuery({ queryKey: ["me"], queryFn: accounts.me });
  const leave = (action: () => Promise<void>) => async () => {
    await action();
    location.replace("/login");
  };
  if (me.data === undefined) return <PageFrame title={strings.account}>{null}</PageFrame>;
  if (!me.data.login_required) return <PageFrame title={strings.account}>{strings.noLogin}</PageFrame>;
  return (
    <PageFrame
      title={strings.account}
      actions={
        <>
          <Button onClick={leave(accounts.logOutEverywhere)}>{strings.logOutEverywhere}</Button>
          <Button onClick={leave(accounts.logOut)}>{strings.logOut}</Button>
        </>
      }
    >
      <div className="flex flex-col gap-8">
        <p>{me.data.email}</p>
        <QuotaSection />
        <PasswordForm />
        <LoginMethods isAdmin={me.data.system_role === "admin"} />
        <Sessions current={me.data.session_id ?? null} />
        <Tokens isAdmin={me.data.system_role === "admin"} />
        <AdminAccesses />
      </div>
    </PageFrame>
  );
}

function PasswordForm() {
  const strings = useAccountStrings();
  const { accounts } = useServer();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const change = useMutation({
    mutationFn: () => accounts.changePassword(current, next),
    onSuccess: () => {
      setCurrent("");
      setNext("");
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate();
  };
  return (
    <Section title={strings.changePassword}>
      <form onSubmit={submit} className="flex flex-col gap-4 p-4">
        <Field name={strings.currentPassword} problem={change.error ? sentence(change.error.message) : null}>
          {(ids) => (
            <input
              {...ids}
              type="password"
              required
              autoComplete="current-password"
              value={current}
              onChange={(event) => setCurrent(event.target.value)}
              className={INPUT}
            />
          )}
        </Field>
        <Field name={strings.newPassword} hint={strings.passwordHint}>
          {(ids) => (
            <input
              {...ids}
              type="password"
              required
              minLength={8}
              autoComplete="new-password"
              value={next}
              onChange={(event) => setNext(event.target.value)}
              className={INPUT}
            />
          )}
        </Field>
        {change.isSuccess && <p role="status">{strings.passwordChanged}</p>}
        <Button type="submit" disabled={change.isPending} className="self-start">
          {strings.changePassword}
        </Button>
      </form>
    </Section>
  );
}

function Sessions({ current }: { current: string | null }) {
  const strings = useAccountStrings();
  const language = useLanguage();
  const { accounts } = useServer();
  const queries = useQueryClient();
  const sessions = useQuery({ queryKey: ["sessions"], queryFn: accounts.sessions });
  const end = useMutation({
    mutationFn: accounts.endSession,
    onSettled: () => queries.invalidateQueries({ queryKey: ["sessions"] }),
  });
  return (
    <Section title={strings.sessions}>
      {sessions.data?.map((each) => (
        <Fact
          key={each.session_id}
          name={
            <>
              <p className="[overflow-wrap:anywhere]">{clientName(each.client) || each.address}</p>
              <p className="text-small text-faint">
                {each.address} · {strings.lastUsed(formatMoment(new Date(each.last_used_at), language))}
              </p>
            </>
          }
        >
          {each.session_id === current ? (
            <span className="text-soft">{strings.thisSession}</span>
          ) : (
            <Button onClick={() => end.mutate(each.session_id)}>{strings.endSession}</Button>
          )}
        </Fact>
      ))}
    </Section>
  );
}

/** Days for which a new token is valid. */
type Expiry = "30" | "90" | "365" | "never";

function Tokens({ isAdmin }: { isAdmin: boolean }) {
  const strings = useAccountStrings();
  const language = useLanguage();
  const { accounts } = useServer();
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [scope, setScope] = useState<TokenScope>("run");
  const [expiry, setExpiry] = useState<Expiry>("90");
  const tokens = useQuery({ queryKey: ["tokens"], queryFn: accounts.tokens });
  const onSettled = () => queries.invalidateQueries({ queryKey: ["tokens"] });
  const revoke = useMutation({ mutationFn: accounts.revokeToken, onSettled });
  const create = useMutation({
    mutationFn: () => accounts.createToken(name, scope, expiry === "never" ? null : Number(expiry)),
    onSuccess: () => setName(""),
    onSettled,
  });
  const { read, run, admin } = strings.scopes;
  const describeExpiry = (at: string | null) => {
    if (at === null) return strings.neverExpires;
    const moment = new Date(at);
    return moment <= new Date() ? strings.expired : strings.validUntil(formatMoment(moment, language));
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <Section title={strings.tokens}>
      {tokens.data?.length === 0 && <Fact name={strings.noTokens}>{null}</Fact>}
      {tokens.data?.map((each) => (
        <Fact
          key={each.token_id}
          name={
            <>
              <p>{each.name}</p>
              <p className="text-small text-faint">
                {strings.scopes[each.scope]} · {describeExpiry(each.expires_at)} ·{" "}
                {each.last_used_at === null
                  ? strings.never
                  : strings.lastUsed(formatMoment(new Date(each.last_used_at), language))}
              </p>
            </>
          }
        >
          <Button onClick={() => revoke.mutate(each.token_id)}>{strings.revoke}</Button>
        </Fact>
      ))}
      <form onSubmit={submit} className="flex flex-col gap-4 p-4">
        <Line name={strings.tokenName} hint={strings.tokensHint} value={name} onChange={setName} />
        <Choice
          name={strings.scope}
          value={scope}
          options={isAdmin ? { read, run, admin } : ({ read, run } as Record<TokenScope, string>)}
          onChoose={setScope}
        />
        <Choice name={strings.expiry} value={expiry} options={strings.expiryDays} onChoose={setExpiry} />
        {create.error && (
          <p role="alert" className="text-small text-error">
            {sentence(create.error.message)}
          </p>
        )}
        <Button type="submit" disabled={create.isPending || name.trim() === ""} className="self-start">
          {strings.createToken}
        </Button>
        {create.data && <OneTimeSecret hint={strings.tokenOnce} text={create.data.token} />}
      </form>
    </Section>
  );
}

/** Reads of the person's threads by administrators, each with its reason. */
function AdminAccesses() {
  const strings = useAccountStrings();
  const language = useLanguage();
  const { accounts } = useServer();
  const accesses = useQuery({ queryKey: ["admin-access"], queryFn: accounts.adminAccess });
  return (
    <Section title={strings.adminAccess}>
      {accesses.data?.length === 0 && <Fact name={strings.noAdminAccess}>{null}</Fact>}
      {accesses.data?.map((each) => (
        <Fact
          key={`${each.at} ${each.thread_id}`}
          name={
            <>
              <p className="[overflow-wrap:anywhere]">
                {strings.adminRead(each.by ?? strings.formerAdmin, each.reason ?? "")}
              </p>
              <p className="text-small text-faint">{formatMoment(new Date(each.at), language)}</p>
            </>
          }
        >
          {each.thread_id !== null && (
            <Link to="/threads/$threadId" params={{ threadId: each.thread_id }} className={buttonLook()}>
              {strings.openThread}
            </Link>
          )}
        </Fact>
      ))}
    </Section>
  );
}

const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\bFirefox\//, "Firefox"],
  [/\b(?:Headless)?Chrome\//, "Chrome"],
  [/\bSafari\//, "Safari"],
];
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Mac OS X/, "macOS"],
  [/Windows/, "Windows"],
  [/Linux/, "Linux"],
];

/** Return browser and system of a `User-Agent` header, or the header of a program that is no browser. */
function clientName(agent: string): string {
  const find = (names: typeof BROWSERS) => names.find(([pattern]) => pattern.test(agent))?.[1];
  return [find(BROWSERS), find(SYSTEMS)].filter(Boolean).join(" · ") || agent;
}
