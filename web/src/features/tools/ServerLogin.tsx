/** Sign-in to an MCP server. */

import { useSearch } from "@tanstack/react-router";
import type { McpServer } from "@/api/tools";
import { useServerChange, useToolStrings } from "@/features/tools/useTools";
import { useLanguage } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";

export function ServerLogin({ server: { name, login, enabled } }: { server: McpServer }) {
  const strings = useToolStrings();
  const language = useLanguage();
  const server = useServer();
  const starting = useServerChange(() => server.startMcpLogin(name, `/tools/${encodeURIComponent(name)}`));
  const leaving = useServerChange(() => server.deleteMcpLogin(name));
  if (login.kind !== "personal" || login.state === "not_needed") return null;
  const isIn = login.state === "logged_in";
  const problem = starting.error ?? leaving.error;
  return (
    <section aria-label={strings.login} className="rounded-box border border-line px-4 py-3">
      <LoginResult />
      <div className="flex flex-wrap items-center gap-3">
        <div className="min-w-40 flex-1">
          <h2 className="font-medium">{strings.login}</h2>
          <p className="text-small text-faint [overflow-wrap:anywhere]">
            {strings.loginStates[login.state]}
            {login.issuer !== null && ` ${strings.at(login.issuer)}`}
            {isIn &&
              login.expires_at !== null &&
              ` ${strings.until} ${formatMoment(login.expires_at, language)}`}
          </p>
        </div>
        {isIn ? (
          <Button disabled={leaving.isPending} onClick={() => leaving.mutate(undefined)}>
            {strings.logOut}
          </Button>
        ) : (
          <Button
            primary
            disabled={starting.isPending || !enabled}
            onClick={() => starting.mutate(undefined, { onSuccess: navigateToLogin })}
          >
            {strings.logIn}
          </Button>
        )}
      </div>
      {problem !== null && (
        <p role="alert" className="mt-2 text-small text-error [overflow-wrap:anywhere]">
          {strings.loginFailed} {sentence(problem.message)}
        </p>
      )}
    </section>
  );
}

/** Result of the login redirect. */
function LoginResult() {
  const strings = useToolStrings();
  const { mcp_login: ended, mcp_problem: problem = "" } = useSearch({ from: "/tools/$server" });
  if (ended !== "failed") return null;
  return (
    <p role="alert" className="mb-2 text-small text-error [overflow-wrap:anywhere]">
      {strings.loginFailed} {sentence(problem)}
    </p>
  );
}

/** Navigate to the login page; only http(s) URLs are allowed. */
function navigateToLogin(address: string): void {
  const place = new URL(address, location.href);
  if (place.protocol === "https:" || place.protocol === "http:") location.assign(place);
}
