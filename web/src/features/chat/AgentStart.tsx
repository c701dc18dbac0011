/** Start page of a custom agent, and of the conversation that creates one. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useAgentStrings } from "@/i18n/agents";
import { useActions } from "@/state/context";
import { useServer } from "@/state/server";
import { AgentAvatar } from "@/ui/AgentAvatar";

/** Greeting of an agent; null for the conversation that creates one. */
export function AgentGreeting({ agent }: { agent: string | null }) {
  const strings = useAgentStrings();
  if (agent !== null) return <OwnGreeting name={agent} />;
  return (
    <>
      <h2 className="text-display font-[550] tracking-[-0.02em] text-balance">{strings.design}</h2>
      <p className="mt-2 text-prose text-soft">{strings.designQuestion}</p>
    </>
  );
}

export function AgentStarters({ agent }: { agent: string | null }) {
  const strings = useAgentStrings();
  const found = useAgent(agent);
  if (agent === null) return <Starters label={strings.designExamples} starters={strings.designs} />;
  const own = (found.data?.starters ?? []).map((prompt) => ({ title: prompt, prompt }));
  return <Starters label={strings.agentStarters} starters={own} />;
}

function OwnGreeting({ name }: { name: string }) {
  const strings = useAgentStrings();
  const found = useAgent(name);
  return (
    <div className="flex items-start gap-4">
      <AgentAvatar name={name} large />
      <div className="min-w-0">
        <h2 className="text-display font-[550] tracking-[-0.02em] [overflow-wrap:anywhere]">{name}</h2>
        {/* Reserve the line while the description loads. */}
        <p className="mt-1 min-h-6 text-prose text-soft [overflow-wrap:anywhere]">
          {found.isError ? strings.unavailable : (found.data?.description ?? "")}
        </p>
        <Link
          to="/agents/$name"
          params={{ name }}
          className="mt-1 inline-block text-ui text-faint underline underline-offset-2 hover:text-ink"
        >
          {strings.editAgent}
        </Link>
      </div>
    </div>
  );
}

function useAgent(name: string | null) {
  const server = useServer();
  return useQuery({
    queryKey: ["agents", name],
    queryFn: () => server.agent(name ?? ""),
    enabled: name !== null,
  });
}

interface StartersProps {
  readonly label: string;
  readonly starters: readonly { readonly title: string; readonly prompt: string }[];
}

function Starters({ label, starters }: StartersProps) {
  const actions = useActions();
  if (starters.length === 0) return null;
  return (
    <ul
      aria-label={label}
      className="mx-auto mt-2 flex w-full max-w-[46rem] flex-wrap content-start gap-2 px-4"
    >
      {starters.map(({ title, prompt }) => (
        <li key={prompt} className="max-w-full">
          <button
            type="button"
            title={prompt}
            onClick={() => void actions.send(prompt)}
            className="h-9 max-w-full animate-appear truncate rounded-full border border-line px-3 text-ui text-soft hover:border-line-strong hover:bg-tint hover:text-ink"
          >
            {title}
          </button>
        </li>
      ))}
    </ul>
  );
}
