/** Source of a fact: quote, replaced facts and history. */

import { useQuery } from "@tanstack/react-query";
import { Eraser } from "lucide-react";
import type { FactProvenance, Source } from "@/api/memory";
import { useErasing } from "@/features/memory/Erasing";
import { ThreadLink } from "@/features/memory/ThreadLink";
import { useShown } from "@/features/memory/useMemory";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { memoryKey } from "@/state/queries";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { RelativeTime } from "@/ui/RelativeTime";
import { ErrorState, LoadingState } from "@/ui/states";

export function FactSource({ factId }: { factId: string }) {
  const strings = useMemoryStrings();
  const { of } = useShown();
  const server = useServer();
  const provenance = useQuery({
    queryKey: [...memoryKey(of), "why", factId],
    queryFn: () => server.factProvenance(of, factId),
  });
  return (
    <div className="mt-3 rounded-box bg-tint p-3 text-small">
      {provenance.isPending ? (
        <LoadingState />
      ) : provenance.isError ? (
        <ErrorState text={strings.whyUnavailable} onRetry={() => void provenance.refetch()} />
      ) : (
        <SourceDetails provenance={provenance.data} />
      )}
    </div>
  );
}

function SourceDetails({ provenance: { fact, changes, superseded } }: { provenance: FactProvenance }) {
  const strings = useMemoryStrings();
  return (
    <dl className="flex flex-col gap-3 [&_dt]:mb-0.5 [&_dt]:text-faint [overflow-wrap:anywhere]">
      {fact.learnedIn !== null && <SourceQuote source={fact.learnedIn} />}
      {fact.sourceError != null && (
        <div>
          <dt>{strings.corrects}</dt>
          <dd className="line-through">{fact.sourceError}</dd>
        </div>
      )}
      {superseded.length > 0 && (
        <div>
          <dt>{strings.replaced}</dt>
          {superseded.map(({ id, content }) => (
            <dd key={id} className="line-through">
              {content}
            </dd>
          ))}
        </div>
      )}
      <div>
        <dt>{strings.happened}</dt>
        {changes.map((change) => (
          <dd key={change.change_id}>
            {strings.actions[change.kind]} · {strings.actors[change.actor]} · <RelativeTime at={change.at} />
          </dd>
        ))}
      </div>
    </dl>
  );
}

function SourceQuote({ source: { thread_id: threadId, quote } }: { source: Source }) {
  const strings = useMemoryStrings();
  const erasing = useErasing();
  return (
    <div>
      <dt>
        {strings.quoted}
        {threadId !== null && (
          <>
            {" · "}
            <ThreadLink threadId={threadId} />
          </>
        )}
      </dt>
      <dd>
        {quote === null ? (
          strings.noQuote
        ) : (
          <blockquote className="border-l-2 border-line-strong pl-3 text-ui whitespace-pre-wrap">
            {quote}
          </blockquote>
        )}
        {threadId !== null && (
          <Button
            className="mt-2 inline-flex items-center gap-2"
            onClick={() => erasing.ask({ kind: "thread", id: threadId })}
          >
            <Eraser aria-hidden className="size-4 text-faint" />
            {strings.eraseLearned}
          </Button>
        )}
        {erasing.dialog}
      </dd>
    </div>
  );
}
