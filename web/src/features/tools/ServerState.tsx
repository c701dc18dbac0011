/** State of a server. */

import type { McpServer, McpState } from "@/api/tools";
import { useToolStrings } from "@/features/tools/useTools";
import { sentence } from "@/i18n/i18n";

const LOOKS: Readonly<Record<McpState, string>> = {
  idle: "bg-faint",
  connecting: "bg-running animate-breathe",
  ready: "bg-done",
  failed: "bg-error",
  disabled: "bg-line-strong",
  changed: "bg-warning",
  needs_login: "bg-warning",
};

export function ServerState({ server: { state, enabled } }: { server: McpServer }) {
  const strings = useToolStrings();
  const shown = enabled ? state : "disabled";
  return (
    <span className="inline-flex items-center gap-1.5">
      <span aria-hidden className={`size-2 shrink-0 rounded-full ${LOOKS[shown]}`} />
      {strings.states[shown]}
    </span>
  );
}

/** Output of a server that is not ready; it is polled while the server is connecting. */
export function ServerLog({ server: { log, enabled } }: { server: McpServer }) {
  const strings = useToolStrings();
  if (log === "" || !enabled) return null;
  return (
    <pre
      role="log"
      aria-label={strings.log}
      className="max-h-60 overflow-auto rounded-box bg-raised px-3 py-2 font-mono text-small whitespace-pre-wrap [overflow-wrap:anywhere]"
    >
      {log}
    </pre>
  );
}

/** Error of a server; the state already says if sign-in is required. */
export function ServerError({ server: { error, enabled, state } }: { server: McpServer }) {
  if (error === null || !enabled || state === "needs_login") return null;
  return (
    <p className="text-small whitespace-pre-wrap text-error [overflow-wrap:anywhere]">{sentence(error)}</p>
  );
}
