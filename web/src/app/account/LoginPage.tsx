/** Login, first account, invitation and new password, depending on the address. */

import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import {
  type AccountsApi,
  type LinkInfo,
  type LoginProviders,
  signOnUrl,
  supportsPasskeys,
} from "@/api/accounts";
import { ApiError } from "@/api/http";
import { useAccountStrings } from "@/i18n/accounts";
import { useTitle } from "@/layout/useTitle";
import { Button, buttonLook } from "@/ui/Button";
import { Field, INPUT } from "@/ui/fields";

/** What the page shows. */
type View = "login" | "setup" | "missing" | "invalid" | "invitation" | "reset";

const LINKS: ReadonlySet<string> = new Set(["/invitation", "/reset-password"]);

export function LoginPage({ accounts }: { accounts: AccountsApi }) {
  const strings = useAccountStrings();
  const token = location.hash.slice(1);
  const [view, setView] = useState<View | null>(null);
  const [link, setLink] = useState<LinkInfo | null>(null);

  useEffect(() => {
    findView(accounts, token).then(([found, info]) => {
      setLink(info);
      setView(found);
    });
  }, [accounts, token]);

  const titles: Readonly<Record<View, string>> = {
    login: strings.logIn,
    setup: strings.setUp,
    missing: strings.needsSetup,
    invalid: strings.invalidLink,
    invitation: strings.join,
    reset: strings.reset,
  };
  useTitle(view === null ? strings.logIn : titles[view]);
  if (view === null) return null;
  const send: Readonly<Partial<Record<View, (email: string, password: string) => Promise<void>>>> = {
    login: (email, password) => accounts.logIn({ email, password }),
    setup: (email, password) => accounts.setUp(token, { email, password }),
    invitation: (email, password) => accounts.acceptInvitation(token, { email, password }),
    reset: (_, password) => accounts.resetPassword(token, password),
  };
  const action = send[view];
  return (
    <Frame title={titles[view]}>
      {view === "setup" && <p className="text-soft">{strings.setUpHint}</p>}
      {view === "missing" && <p className="text-soft">{strings.needsSetupHint}</p>}
      {view === "invalid" && <p className="text-soft">{strings.invalidLinkHint}</p>}
      {action && (
        <Form key={view} view={view} title={titles[view]} address={link?.email ?? ""} send={action} />
      )}
      {view === "login" && <OtherWays accounts={accounts} />}
    </Frame>
  );
}

async function findView(accounts: AccountsApi, token: string): Promise<[View, LinkInfo | null]> {
  try {
    if (LINKS.has(location.pathname) && token !== "") {
      const link = await accounts.checkLink(token);
      return [link.kind === "invitation" ? "invitation" : "reset", link];
    }
    if (location.pathname === "/setup" && token !== "") return ["setup", null];
    return [(await accounts.status()).needs_setup ? "missing" : "login", null];
  } catch (problem) {
    return [problem instanceof ApiError && problem.status === 404 ? "invalid" : "login", null];
  }
}

function Frame({ title, children }: { title: string; children: ReactNode }) {
  return (
    <main className="flex min-h-dvh items-center justify-center p-4">
      <div className="flex w-full max-w-sm flex-col gap-4">
        <img src="/icon.svg" alt="DeerFlow" className="size-10" />
        <h1 className="text-title font-semibold">{title}</h1>
        {children}
      </div>
    </main>
  );
}

/** Login at providers and with a passkey, and the reason why the last one failed. */
function OtherWays({ accounts }: { accounts: AccountsApi }) {
  const strings = useAccountStrings();
  const [ways, setWays] = useState<LoginProviders | null>(null);
  const [problem, setProblem] = useState(() => findProblem(strings));
  useEffect(() => {
    accounts.providers().then(setWays, () => undefined);
  }, [accounts]);
  const usePasskey = async () => {
    try {
      await accounts.logInWithPasskey();
      location.replace(returnPath());
    } catch (thrown) {
      setProblem(
        thrown instanceof ApiError && thrown.status === 429 ? strings.tooMany : strings.passkeyRefused,
      );
    }
  };
  const hasPasskeys = ways?.passkeys === true && supportsPasskeys();
  const providers = ways?.providers ?? [];
  return (
    <>
      {problem !== null && (
        <p role="alert" className="text-small text-error">
          {problem}
        </p>
      )}
      {(hasPasskeys || providers.length > 0) && (
        <div className="flex flex-col gap-2">
          <p className="text-center text-small text-soft">{strings.otherWays}</p>
          {providers.map((each) => (
            <a
              key={each.name}
              href={signOnUrl(each.name, returnPath())}
              className={`${buttonLook()} justify-center`}
            >
              {strings.logInAt(each.label)}
            </a>
          ))}
          {hasPasskeys && <Button onClick={usePasskey}>{strings.logInWithPasskey}</Button>}
        </div>
      )}
    </>
  );
}

/** Return the reason of a failed login at a provider, which the server has put into the address. */
function findProblem(strings: ReturnType<typeof useAccountStrings>): string | null {
  const reason = new URLSearchParams(location.search).get("problem");
  if (reason === null) return null;
  const problems: Readonly<Record<string, string>> = strings.signOnProblems;
  return (Object.hasOwn(problems, reason) ? problems[reason] : null) ?? strings.signOnProblems.failed;
}

/** Return the page that was opened before the login. */
function returnPath(): string {
  return location.pathname === "/login" ? "/" : location.pathname + location.search;
}

interface FormProps {
  readonly view: View;
  readonly title: string;
  /** Address that a link is for. */
  readonly address: string;
  readonly send: (email: string, password: string) => Promise<void>;
}

function Form({ view, title, address, send }: FormProps) {
  const strings = useAccountStrings();
  const [email, setEmail] = useState(address);
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const isNew = view !== "login";

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await send(email, password);
      // A new document, so that nothing of another user stays in memory.
      location.replace(isNew ? "/" : returnPath());
    } catch (thrown) {
      setBusy(false);
      setProblem(explain(thrown, strings));
    }
  };

  return (
    <form onSubmit={submit} className="flex flex-col gap-4">
      {view !== "reset" && (
        <Field name={strings.email}>
          {(ids) => (
            <input
              {...ids}
              type="email"
              required
              autoComplete="username"
              value={email}
              readOnly={address !== ""}
              onChange={(event) => setEmail(event.target.value)}
              className={INPUT}
            />
          )}
        </Field>
      )}
      <Field
        name={view === "reset" ? strings.newPassword : strings.password}
        hint={isNew ? strings.passwordHint : undefined}
        problem={problem}
      >
        {(ids) => (
          <input
            {...ids}
            type="password"
            required
            minLength={isNew ? 8 : 1}
            maxLength={1024}
            autoComplete={isNew ? "new-password" : "current-password"}
            value={password}
            onChange={(event) => setPassword(event.target.value)}
            className={INPUT}
          />
        )}
      </Field>
      <Button primary type="submit" disabled={busy}>
        {title}
      </Button>
    </form>
  );
}

function explain(problem: unknown, strings: ReturnType<typeof useAccountStrings>): string {
  if (!(problem instanceof ApiError)) return strings.unreachable;
  if (problem.status === 401) return strings.wrong;
  if (problem.status === 429) return strings.tooMany;
  if (problem.status === 404) return `${strings.invalidLink}.`;
  return `${strings.failed}: ${problem.message}`;
}
