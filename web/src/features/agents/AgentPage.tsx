/** Page of one agent: create, edit, delete. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { type Agent, agentTitle } from "@/api/agents";
import { AgentForm } from "@/features/agents/AgentForm";
import { NEW } from "@/features/agents/AgentsPage";
import { useAgentStrings } from "@/i18n/agents";
import { useStrings } from "@/i18n/context";
import { useTeamStrings } from "@/i18n/teams";
import { PageFrame } from "@/layout/PageFrame";
import { OwnerNote, ShareThingButton } from "@/layout/ShareThing";
import { useActions } from "@/state/context";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { ErrorState, LoadingState } from "@/ui/states";

const EMPTY = {
  name: "",
  description: "",
  model: null,
  tool_groups: null,
  skills: null,
  starters: [],
  soul: "",
} as const;

export function AgentPage() {
  const strings = useStrings();
  const words = useTeamStrings();
  const { name } = useParams({ from: "/agents/$name" });
  const server = useServer();
  const isNew = name === NEW;
  const agent = useQuery({
    queryKey: ["agents", name],
    queryFn: () => server.agent(name),
    enabled: !isNew,
  });
  return (
    <PageFrame
      title={isNew ? strings.newAgent : agentTitle(name)}
      actions={
        !isNew &&
        agent.isSuccess && (
          <>
            {!agent.data.shared_by && <ShareThingButton of={{ kind: "agent", id: name }} />}
            <ChatButton name={name} />
          </>
        )
      }
    >
      {isNew ? (
        <AgentForm key={NEW} agent={EMPTY} isNew />
      ) : agent.isPending ? (
        <LoadingState />
      ) : agent.isError ? (
        <ErrorState text={strings.agentMissing} onRetry={() => void agent.refetch()} />
      ) : (
        <>
          {agent.data.shared_by && (
            <div className="mb-4 rounded-box bg-tint px-3 py-2">
              <OwnerNote share={agent.data} hint={words.agentNote} />
            </div>
          )}
          {agent.data.access === "read" ? (
            <ReadAgent agent={agent.data} />
          ) : (
            <AgentForm key={name} agent={agent.data} isNew={false} />
          )}
          {!agent.data.shared_by && <Deletion name={name} />}
        </>
      )}
    </PageFrame>
  );
}

/** Agent of another person, which the person may use only. */
function ReadAgent({ agent: { description, soul } }: { agent: Agent }) {
  const words = useAgentStrings();
  return (
    <section aria-label={words.instructions} className="flex flex-col gap-2">
      {description !== "" && <p className="text-soft [overflow-wrap:anywhere]">{description}</p>}
      <h2 className="font-medium">{words.instructions}</h2>
      <textarea
        readOnly
        aria-label={words.instructions}
        value={soul}
        rows={8}
        className="field-sizing-content min-h-24 resize-none rounded-box border border-line bg-rail p-3 font-mono text-small focus-visible:outline-accent"
      />
    </section>
  );
}

function ChatButton({ name }: { name: string }) {
  const strings = useStrings();
  const actions = useActions();
  return (
    <Button onClick={() => void actions.startChat({ agent: name, bootstrap: false })}>{strings.chat}</Button>
  );
}

/** Deletion cannot be undone, so ask first. */
function Deletion({ name }: { name: string }) {
  const strings = useStrings();
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [asking, setAsking] = useState(false);
  const [failed, setFailed] = useState(false);
  const remove = async () => {
    try {
      await server.deleteAgent(name);
    } catch {
      setFailed(true);
      return;
    }
    await navigate({ to: "/agents" });
    queries.removeQueries({ queryKey: ["agents", name] });
    await queries.invalidateQueries({ queryKey: ["agents"] });
  };
  return (
    <div className="mt-8 flex flex-wrap items-center gap-3 border-t border-line pt-4">
      {asking ? (
        <>
          <p role="alert" className="text-error">
            {failed ? strings.agentNotSaved : strings.agentDeleteSure(name)}
          </p>
          <Button onClick={() => setAsking(false)}>{strings.cancel}</Button>
          <Button onClick={() => void remove()} className="text-error">
            {strings.deleteItem}
          </Button>
        </>
      ) : (
        <Button onClick={() => setAsking(true)}>{strings.agentDeleted(name)}</Button>
      )}
    </div>
  );
}
