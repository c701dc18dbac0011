/** Memory used by a run. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { agentOfRun } from "@/api/assistants";
import type { WireRun } from "@/api/wire";
import { useLanguage } from "@/i18n/context";
import { formatCount } from "@/i18n/format";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { memoryKey } from "@/state/queries";
import { useServer } from "@/state/server";

export function InjectedMemory({ threadId, run }: { threadId: string; run: WireRun }) {
  const strings = useMemoryStrings();
  const language = useLanguage();
  const server = useServer();
  const memory = useQuery({
    queryKey: ["thread", threadId, "injected-memory", run.run_id],
    queryFn: () => server.injectedMemory(threadId, run.run_id),
  });
  if (!memory.data) return null;
  const { injected, considered, dropped, tokens, is_new: isNew } = memory.data;
  const { agent } = agentOfRun(run);
  return (
    <section aria-label={strings.injected} className="mb-4 rounded-box border border-line px-3 py-2">
      <details>
        <summary className="cursor-pointer">
          <span className="font-medium">{strings.injected}</span>{" "}
          <span className="text-small text-faint">
            {strings.injectedCounts(injected.length, considered)} ·{" "}
            {strings.injectedTokens(formatCount(tokens, language))}
            {dropped > 0 && ` · ${strings.injectedOmitted(dropped)}`}
          </span>
        </summary>
        <div className="mt-2 text-small">
          {!isNew && <p className="text-faint">{strings.injectedUnchanged}</p>}
          <InjectedFacts of={agent} ids={injected} />
          <Link to="/memory" search={agent === null ? {} : { agent }} className="text-accent underline">
            {strings.toMemory}
          </Link>
        </div>
      </details>
    </section>
  );
}

function InjectedFacts({ of, ids }: { of: string | null; ids: readonly string[] }) {
  const strings = useMemoryStrings();
  const server = useServer();
  const memory = useQuery({
    queryKey: memoryKey(of),
    queryFn: () => server.memory(of),
    enabled: ids.length > 0,
  });
  const known = new Map(memory.data?.data.facts.map(({ id, content }) => [id, content]));
  if (memory.data === undefined) return null;
  return (
    <ul className="my-1 list-disc pl-5 text-soft [overflow-wrap:anywhere]">
      {ids.map((id) => (
        <li key={id}>{known.get(id) ?? <em className="text-faint">{strings.injectedDeleted}</em>}</li>
      ))}
    </ul>
  );
}
