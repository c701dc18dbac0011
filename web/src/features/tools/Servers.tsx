/** List of MCP servers. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plug } from "lucide-react";
import type { McpServer } from "@/api/tools";
import { ServerError, ServerState } from "@/features/tools/ServerState";
import { SERVERS, useServerSwitch, useToolStrings, watchWhile } from "@/features/tools/useTools";
import { sentence } from "@/i18n/i18n";
import { useServer } from "@/state/server";
import { buttonLook } from "@/ui/Button";
import { Switch } from "@/ui/Switch";
import { EmptyState, ErrorState, LoadingState } from "@/ui/states";

export function Servers() {
  const strings = useToolStrings();
  return (
    <section aria-label={strings.servers}>
      <h2 className="mb-1 text-title font-semibold">{strings.servers}</h2>
      <p className="mb-3 text-soft">{strings.serversHint}</p>
      <FileProblem />
      <List />
    </section>
  );
}

function FileProblem() {
  const strings = useToolStrings();
  const server = useServer();
  const config = useQuery({ queryKey: [...SERVERS, "config"], queryFn: server.mcpConfig });
  const problem = config.data?.problem ?? (config.isError ? config.error.message : null);
  if (problem === null) return null;
  return (
    <p
      role="alert"
      className="mb-3 rounded-box bg-error-tint px-3 py-2 whitespace-pre-wrap text-error [overflow-wrap:anywhere]"
    >
      {config.isError ? "" : `${strings.fileProblem} `}
      {sentence(problem)}
    </p>
  );
}

function List() {
  const strings = useToolStrings();
  const server = useServer();
  const servers = useQuery({
    queryKey: [...SERVERS, "servers"],
    queryFn: server.mcpServers,
    refetchInterval: ({ state }) => watchWhile(state.data),
  });
  if (servers.isPending) return <LoadingState />;
  if (servers.isError) {
    return <ErrorState text={strings.serversUnavailable} onRetry={() => void servers.refetch()} />;
  }
  if (servers.data.length === 0)
    return (
      <EmptyState text={strings.noServers}>
        <Link to="/tools" search={{ adding: true }} className={buttonLook()}>
          {strings.add}
        </Link>
      </EmptyState>
    );
  return (
    <ul aria-label={strings.servers} className="divide-y divide-line rounded-box border border-line">
      {servers.data.map((each) => (
        <Row key={each.name} server={each} />
      ))}
    </ul>
  );
}

function Row({ server }: { server: McpServer }) {
  const strings = useToolStrings();
  const { flip, problem } = useServerSwitch(server.name);
  const { name, description, enabled, tools } = server;
  return (
    <li className="flex items-center gap-3 px-4 py-3">
      <Plug aria-hidden className={`size-5 shrink-0 ${enabled ? "text-accent" : "text-faint"}`} />
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-baseline gap-x-3">
          <Link to="/tools/$server" params={{ server: name }} className="font-medium hover:underline">
            {name}
          </Link>
          <span className="text-small text-faint">
            <ServerState server={server} />
            {enabled && tools.length > 0 && ` · ${strings.toolCount(tools.length)}`}
          </span>
        </p>
        {description !== "" && <p className="line-clamp-2 text-small text-faint">{description}</p>}
        <ServerError server={server} />
        {problem !== null && (
          <p role="alert" className="text-small text-error">
            {strings.notSwitched} {sentence(problem)}
          </p>
        )}
      </div>
      <Switch on={enabled} label={strings.use(name)} onSwitch={flip} />
    </li>
  );
}
