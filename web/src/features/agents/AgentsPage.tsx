/** List of custom agents. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { agentTitle } from "@/api/agents";
import { useStrings } from "@/i18n/context";
import { PageFrame } from "@/layout/PageFrame";
import { OwnerNote } from "@/layout/ShareThing";
import { useActions } from "@/state/context";
import { useServer } from "@/state/server";
import { AgentAvatar } from "@/ui/AgentAvatar";
import { Button } from "@/ui/Button";
import { EmptyState, ErrorState, LoadingState } from "@/ui/states";

export function AgentsPage() {
  const strings = useStrings();
  const actions = useActions();
  return (
    <PageFrame
      title={strings.agents}
      actions={
        <>
          <Button onClick={() => void actions.startChat({ agent: null, bootstrap: true })}>
            {strings.createWithChat}
          </Button>
          <Link
            to="/agents/$name"
            params={{ name: NEW }}
            className="inline-flex h-8 items-center gap-1 rounded-box bg-accent px-3 font-medium text-on-accent hover:bg-accent-strong"
          >
            <Plus aria-hidden className="size-4" />
            {strings.newAgent}
          </Link>
        </>
      }
    >
      <p className="mb-4 text-soft">{strings.agentsHint}</p>
      <AgentList />
    </PageFrame>
  );
}

/** Not a valid agent name, so it cannot collide. */
export const NEW = "_new";

function AgentList() {
  const strings = useStrings();
  const actions = useActions();
  const server = useServer();
  const agents = useQuery({ queryKey: ["agents"], queryFn: server.agents });
  if (agents.isPending) return <LoadingState />;
  if (agents.isError)
    return <ErrorState text={strings.agentsUnavailable} onRetry={() => void agents.refetch()} />;
  if (agents.data.length === 0)
    return (
      <EmptyState text={strings.noAgents}>
        <Button primary onClick={() => void actions.startChat({ agent: null, bootstrap: true })}>
          {strings.createWithChat}
        </Button>
      </EmptyState>
    );
  return (
    <ul className="divide-y divide-line rounded-box border border-line">
      {agents.data.map(({ name, description, ...share }) => (
        <li key={name} className="flex items-center gap-3 px-4 py-3">
          <AgentAvatar name={agentTitle(name)} />
          <div className="min-w-0 flex-1">
            <Link to="/agents/$name" params={{ name }} className="font-medium hover:underline">
              {agentTitle(name)}
            </Link>
            {description !== "" && <p className="line-clamp-2 text-small text-faint">{description}</p>}
            <OwnerNote share={share} />
          </div>
          <Button onClick={() => void actions.startChat({ agent: name, bootstrap: false })}>
            {strings.chat}
          </Button>
        </li>
      ))}
    </ul>
  );
}
