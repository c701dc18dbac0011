/** Accounts: login, links, sessions, API tokens, passkeys, identities and users. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { Schemas, WireMessagePage } from "@/api/wire";

export type Me = Schemas["Me"];
export type SetupStatus = Schemas["SetupStatus"];
export type LinkInfo = Schemas["LinkInfo"];
export type Session = Schemas["SessionInfo"];
export type Token = Schemas["TokenInfo"];
export type NewToken = Schemas["NewToken"];
export type TokenScope = Token["scope"];
export type User = Schemas["UserInfo"];
export type Role = User["role"];
export type Invitation = Schemas["InvitationInfo"];
export type MyQuota = Schemas["MyQuota"];
export type UserQuota = Schemas["UserQuota"];
export type QuotaLimits = Schemas["QuotaLimits"];
export type NewLink = Schemas["NewLink"];
export type AuditEntry = Schemas["AuditEntryInfo"];
export type AuditPerson = Schemas["AuditPerson"];
export type AdminAccess = Schemas["AdminAccess"];
export type Passkey = Schemas["PasskeyInfo"];
export type Identity = Schemas["IdentityInfo"];
export type LoginProviders = Schemas["LoginProviders"];

const AUTH = "/api/v1/auth";
const AUDIT = "/api/audit";
/** Header that forms of other sites cannot send. */
const PROTECTION = "X-CSRF-Protection";

export function protect(init: RequestInit = {}): RequestInit {
  const headers = new Headers(init.headers);
  headers.set(PROTECTION, "1");
  return { ...init, headers };
}

/** Return true if a response says that the page has to log in. */
export function needsLogin(response: Response): boolean {
  return response.status === 401 && response.headers.has("WWW-Authenticate");
}

/** Return the address at which a login at a provider begins; afterwards the browser returns to `path`. */
export function signOnUrl(provider: string, path: string): string {
  return `${AUTH}/oauth/${encodeURIComponent(provider)}?${new URLSearchParams({ next: path })}`;
}

/** Return true if this browser can use passkeys here: they are bound to a name, so an address will not do. */
export function supportsPasskeys(): boolean {
  const isAddress = /^[\d.]+$|:/.test(location.hostname);
  return (
    !isAddress &&
    typeof PublicKeyCredential === "function" &&
    "parseRequestOptionsFromJSON" in PublicKeyCredential
  );
}

type Options = Schemas["PasskeyOptions"];

export interface Credentials {
  readonly email: string;
  readonly password: string;
}

export type AccountsApi = ReturnType<typeof accountsApi>;

export function accountsApi(fetch: Fetch) {
  const send = async (path: string, init: RequestInit) => {
    await request(fetch, `${AUTH}/${path}`, init);
  };
  const remove = (path: string) => send(path, { method: "DELETE" });
  return {
    status: () => requestJson<SetupStatus>(fetch, `${AUTH}/setup-status`),
    me: () => requestJson<Me>(fetch, `${AUTH}/me`),
    quota: () => requestJson<MyQuota>(fetch, `${AUTH}/quota`),
    userQuota: (id: string) => requestJson<UserQuota>(fetch, `${AUTH}/users/${encodeURIComponent(id)}/quota`),
    setUserQuota: (id: string, limits: QuotaLimits) =>
      send(`users/${encodeURIComponent(id)}/quota`, jsonBody(limits, "PUT")),
    logIn: (credentials: Credentials) => send("login/local", jsonBody(credentials)),
    setUp: (token: string, credentials: Credentials) =>
      send("initialize", jsonBody({ token, ...credentials })),
    checkLink: (token: string) => requestJson<LinkInfo>(fetch, `${AUTH}/check-link`, jsonBody({ token })),
    acceptInvitation: (token: string, credentials: Credentials) =>
      send("accept-invitation", jsonBody({ token, ...credentials })),
    resetPassword: (token: string, password: string) => send("reset-password", jsonBody({ token, password })),
    providers: () => requestJson<LoginProviders>(fetch, `${AUTH}/providers`),
    beginLink: (provider: string) =>
      requestJson<Schemas["StartedLink"]>(fetch, `${AUTH}/oauth/${encodeURIComponent(provider)}/link`, {
        method: "POST",
      }),
    identities: () => requestJson<Identity[]>(fetch, `${AUTH}/identities`),
    removeIdentity: (id: string) => remove(`identities/${encodeURIComponent(id)}`),
    logInWithPasskey: async () => {
      const { options } = await requestJson<Options>(fetch, `${AUTH}/passkeys/login/options`, {
        method: "POST",
      });
      const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as never);
      const credential = await navigator.credentials.get({ publicKey });
      await send("passkeys/login", jsonBody({ credential }));
    },
    passkeys: () => requestJson<Passkey[]>(fetch, `${AUTH}/passkeys`),
    addPasskey: async (name: string) => {
      const { options } = await requestJson<Options>(fetch, `${AUTH}/passkeys/options`, { method: "POST" });
      const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as never);
      const credential = await navigator.credentials.create({ publicKey });
      await send("passkeys", jsonBody({ name, credential }));
    },
    renamePasskey: (id: string, name: string) =>
      send(`passkeys/${encodeURIComponent(id)}`, jsonBody({ name }, "PATCH")),
    removePasskey: (id: string) => remove(`passkeys/${encodeURIComponent(id)}`),
    logOut: () => send("logout", { method: "POST" }),
    logOutEverywhere: () => send("logout-everywhere", { method: "POST" }),
    changePassword: (current: string, next: string) =>
      send("change-password", jsonBody({ current_password: current, new_password: next })),
    sessions: () => requestJson<Session[]>(fetch, `${AUTH}/sessions`),
    endSession: (id: string) => remove(`sessions/${encodeURIComponent(id)}`),
    tokens: () => requestJson<Token[]>(fetch, `${AUTH}/tokens`),
    createToken: (name: string, scope: TokenScope, days: number | null) =>
      requestJson<NewToken>(fetch, `${AUTH}/tokens`, jsonBody({ name, scope, expires_in_days: days })),
    revokeToken: (id: string) => remove(`tokens/${encodeURIComponent(id)}`),
    createSetupLink: () => requestJson<Schemas["SetupLink"]>(fetch, `${AUTH}/setup-link`, { method: "POST" }),
    users: () => requestJson<User[]>(fetch, `${AUTH}/users`),
    changeUser: (id: string, change: { role?: Role; is_active?: boolean }) =>
      send(`users/${encodeURIComponent(id)}`, jsonBody(change, "PATCH")),
    deleteUser: (id: string) => remove(`users/${encodeURIComponent(id)}`),
    createResetLink: (id: string) =>
      requestJson<NewLink>(fetch, `${AUTH}/users/${encodeURIComponent(id)}/reset-link`, { method: "POST" }),
    invitations: () => requestJson<Invitation[]>(fetch, `${AUTH}/invitations`),
    invite: (email: string | null, role: Role) =>
      requestJson<NewLink>(fetch, `${AUTH}/invitations`, jsonBody({ email, role })),
    withdrawInvitation: (id: string) => remove(`invitations/${encodeURIComponent(id)}`),
    adminAccess: () => requestJson<AdminAccess[]>(fetch, `${AUTH}/admin-access`),
    /** Read messages of a thread of any person. Each call is recorded, and the person sees it. */
    readThread: (threadId: string, reason: string, before: string | null) => {
      const query = new URLSearchParams({ reason, ...(before !== null && { before }) });
      const path = `/api/admin/threads/${encodeURIComponent(threadId)}/messages`;
      return requestJson<WireMessagePage>(fetch, `${path}?${query}`);
    },
    audit: (kind: string, person: string, before: number | null) => {
      const query = new URLSearchParams({
        ...(kind && { kind }),
        ...(person && { person }),
        ...(before !== null && { before: String(before) }),
      });
      return requestJson<Schemas["AuditPage"]>(fetch, `${AUDIT}?${query}`);
    },
    verifyAudit: (head: string) =>
      requestJson<Schemas["AuditVerification"]>(
        fetch,
        `${AUDIT}/verify${head && `?${new URLSearchParams({ head })}`}`,
      ),
    auditExportUrl: `${AUDIT}/export`,
  };
}
