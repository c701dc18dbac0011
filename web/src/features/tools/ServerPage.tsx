/** Page of one MCP server. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { McpEntry, McpServer } from "@/api/tools";
import { ChangedTools } from "@/features/tools/ChangedTools";
import { ServerCapabilities } from "@/features/tools/ServerCapabilities";
import { ServerForm } from "@/features/tools/ServerForm";
import { ServerLogin } from "@/features/tools/ServerLogin";
import { ServerError, ServerLog, ServerState } from "@/features/tools/ServerState";
import {
  SERVERS,
  useServerChange,
  useServerSwitch,
  useToolStrings,
  watchWhile,
} from "@/features/tools/useTools";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { PageFrame } from "@/layout/PageFrame";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { RelativeTime } from "@/ui/RelativeTime";
import { Switch } from "@/ui/Switch";
import { ErrorState, LoadingState } from "@/ui/states";

export function ServerPage() {
  const strings = useToolStrings();
  const { server: name } = useParams({ from: "/tools/$server" });
  const server = useServer();
  const found = useQuery({
    queryKey: [...SERVERS, "server", name],
    queryFn: () => server.mcpServer(name),
    refetchInterval: ({ state }) => watchWhile(state.data && [state.data]),
  });
  return (
    <PageFrame title={name} actions={found.data && <ServerSwitch server={found.data} />}>
      {found.isPending ? (
        <LoadingState />
      ) : found.data === undefined ? (
        <ErrorState text={strings.serverMissing} onRetry={() => void found.refetch()} />
      ) : (
        <ServerDetails key={name} server={found.data} />
      )}
    </PageFrame>
  );
}

function ServerSwitch({ server }: { server: McpServer }) {
  const strings = useToolStrings();
  const { flip, problem } = useServerSwitch(server.name);
  return (
    <>
      {problem !== null && (
        <p role="alert" className="text-small text-error">
          {strings.notSwitched} {sentence(problem)}
        </p>
      )}
      <Switch on={server.enabled} label={strings.use(server.name)} onSwitch={flip} />
    </>
  );
}

function ServerDetails({ server }: { server: McpServer }) {
  const [editing, setEditing] = useState(false);
  if (editing) return <Edited name={server.name} onDone={() => setEditing(false)} />;
  return (
    <div className="flex flex-col gap-6">
      <ServerStatus server={server} onEdit={() => setEditing(true)} />
      <ServerLogin server={server} />
      {server.changed_tools.length > 0 && <ChangedTools name={server.name} />}
      <ServerCapabilities server={server} />
    </div>
  );
}

function ServerStatus({ server, onEdit }: { server: McpServer; onEdit: () => void }) {
  const strings = useToolStrings();
  const api = useServer();
  const asking = useServerChange(() => api.reconnectMcpServer(server.name));
  return (
    <div>
      {server.description !== "" && <p className="mb-2 text-soft">{server.description}</p>}
      <p className="text-small text-faint">
        <ServerState server={server} />
        {server.since !== null && (
          <>
            {" · "}
            <RelativeTime at={server.since} />
          </>
        )}
        {" · "}
        {strings.kinds[server.type]}
      </p>
      <ServerError server={server} />
      <ServerLog server={server} />
      {server.notes.map((note) => (
        <p key={note} className="text-small text-soft">
          {sentence(note)}
        </p>
      ))}
      {asking.isError && (
        <p role="alert" className="text-small text-error">
          {strings.notReconnected} {sentence(asking.error.message)}
        </p>
      )}
      <div className="mt-3 flex flex-wrap items-center gap-2">
        <Button disabled={asking.isPending || !server.enabled} onClick={() => asking.mutate(undefined)}>
          {asking.isPending ? strings.reconnecting : strings.reconnect}
        </Button>
        <Button onClick={onEdit}>{strings.edit}</Button>
        <Removal name={server.name} />
      </div>
    </div>
  );
}

/** Sign-ins cannot be restored, so ask first. */
function Removal({ name }: { name: string }) {
  const page = useStrings();
  const strings = useToolStrings();
  const server = useServer();
  const navigate = useNavigate();
  const [asking, setAsking] = useState(false);
  const removal = useServerChange(() => server.removeMcpServer(name));
  if (!asking) {
    return (
      <Button className="text-error" onClick={() => setAsking(true)}>
        {strings.remove}
      </Button>
    );
  }
  return (
    <div className="flex w-full flex-wrap items-center gap-2 rounded-box bg-error-tint px-3 py-2">
      <p role="alert" className="min-w-60 flex-1 text-error">
        {removal.isError
          ? `${strings.notRemoved} ${sentence(removal.error.message)}`
          : strings.removeSure(name)}
      </p>
      <Button onClick={() => setAsking(false)}>{page.cancel}</Button>
      <Button
        className="border-error text-error"
        disabled={removal.isPending}
        onClick={() => removal.mutate(undefined, { onSuccess: () => void navigate({ to: "/tools" }) })}
      >
        {strings.remove}
      </Button>
    </div>
  );
}

interface ServerChange {
  readonly name: string;
  readonly entry: McpEntry;
}

function Edited({ name, onDone }: { name: string; onDone: () => void }) {
  const strings = useToolStrings();
  const server = useServer();
  const config = useQuery({
    queryKey: [...SERVERS, "config", name],
    queryFn: server.mcpConfig,
    // Edits are kept; a newer entry is loaded next time.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  const saving = useServerChange((change: ServerChange) => server.putMcpServer(change.name, change.entry));
  const entry = config.data?.mcp_servers[name];
  if (config.isPending) return <LoadingState />;
  if (entry === undefined) {
    return <ErrorState text={strings.serverMissing} onRetry={() => void config.refetch()} />;
  }
  const save = async (_: string, entry: McpEntry) => {
    await saving.mutateAsync({ name, entry });
    onDone();
  };
  return <ServerForm name={name} entry={entry} taken={[]} onSave={save} onCancel={onDone} />;
}
