/** What a run was told from memory: how much of what there was, and which facts. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { whoAnswered } from "@/api/assistants";
import type { WireRun } from "@/api/wire";
import { useLanguage } from "@/app/context";
import { useServer } from "@/app/server";
import { keyOf, useMemoryStrings } from "@/features/memory/useMemory";
import { formatCount } from "@/i18n/format";

export function Receipt({ threadId, run }: { threadId: string; run: WireRun }) {
  const strings = useMemoryStrings();
  const language = useLanguage();
  const server = useServer();
  const receipt = useQuery({
    queryKey: ["thread", threadId, "receipt", run.run_id],
    queryFn: () => server.memoryReceipt(threadId, run.run_id),
  });
  if (!receipt.data) return null;
  const { injected, considered, dropped, tokens, is_new: isNew } = receipt.data;
  const { agent } = whoAnswered(run);
  return (
    <section aria-label={strings.told} className="mb-4 rounded-box border border-line px-3 py-2">
      <details>
        <summary className="cursor-pointer">
          <span className="font-medium">{strings.told}</span>{" "}
          <span className="text-small text-faint">
            {strings.toldCounts(injected.length, considered)} ·{" "}
            {strings.toldTokens(formatCount(tokens, language))}
            {dropped > 0 && ` · ${strings.toldDropped(dropped)}`}
          </span>
        </summary>
        <div className="mt-2 text-small">
          {!isNew && <p className="text-faint">{strings.toldAgain}</p>}
          <Told of={agent} ids={injected} />
          <Link to="/memory" search={agent === null ? {} : { agent }} className="text-accent underline">
            {strings.toMemory}
          </Link>
        </div>
      </details>
    </section>
  );
}

function Told({ of, ids }: { of: string | null; ids: readonly string[] }) {
  const strings = useMemoryStrings();
  const server = useServer();
  const memory = useQuery({ queryKey: keyOf(of), queryFn: () => server.memory(of), enabled: ids.length > 0 });
  const known = new Map(memory.data?.data.facts.map(({ id, content }) => [id, content]));
  if (memory.data === undefined) return null;
  return (
    <ul className="my-1 list-disc pl-5 text-soft [overflow-wrap:anywhere]">
      {ids.map((id) => (
        <li key={id}>{known.get(id) ?? <em className="text-faint">{strings.toldGone}</em>}</li>
      ))}
    </ul>
  );
}
