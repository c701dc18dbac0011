/** Memory page. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { History, Plus } from "lucide-react";
import { type ReactNode, useState } from "react";
import { ApiError } from "@/api/http";
import type { FactText, MemoryStatus } from "@/api/memory";
import { Changes } from "@/features/memory/Changes";
import { FactForm } from "@/features/memory/FactForm";
import { Facts } from "@/features/memory/Facts";
import { MemoryMenu } from "@/features/memory/MemoryMenu";
import { MemorySettings } from "@/features/memory/MemorySettings";
import { Summaries } from "@/features/memory/Summaries";
import {
  MemoryContext,
  type Notice,
  useChange,
  useMemory,
  useShown,
  useUndo,
} from "@/features/memory/useMemory";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { PageFrame } from "@/layout/PageFrame";
import { memoryKey } from "@/state/queries";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Segments } from "@/ui/Segments";
import { ErrorState, LoadingState } from "@/ui/states";

export function MemoryPage() {
  const page = useStrings();
  const strings = useMemoryStrings();
  const { agent, as_of: asOf } = useSearch({ from: "/memory" });
  const of = agent ?? null;
  const memory = useMemory(of);
  const [notice, say] = useState<Notice | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [adding, setAdding] = useState(false);
  const revision = memory.data?.data.revision ?? 0;
  return (
    <MemoryContext value={{ of, isNow: asOf === undefined, revision, say, add: () => setAdding(true) }}>
      <PageFrame
        title={page.memory}
        actions={
          memory.data !== undefined &&
          asOf === undefined && (
            <>
              <MemoryMenu onProblem={setProblem} />
              <Button primary onClick={() => setAdding(true)} className="inline-flex items-center gap-1">
                <Plus aria-hidden className="size-4" />
                {strings.add}
              </Button>
            </>
          )
        }
      >
        <div className="mb-4 flex flex-wrap items-start gap-x-4 gap-y-2">
          <p className="min-w-60 flex-1 text-soft">{strings.hint}</p>
          <OwnerPicker />
        </div>
        {problem !== null && (
          <p role="alert" className="mb-4 rounded-box bg-error-tint px-3 py-2 whitespace-pre-wrap text-error">
            {problem}
          </p>
        )}
        <NoticeBar notice={notice} />
        {adding && <NewFact onDone={() => setAdding(false)} />}
        {memory.data !== undefined ? (
          <Shown status={memory.data} stale={memory.isError} />
        ) : memory.isError ? (
          <ErrorState
            text={`${strings.unavailable} ${sentence(memory.error.message)}`}
            onRetry={() => void memory.refetch()}
          />
        ) : memory.fetchStatus === "paused" ? (
          <ErrorState text={page.offline} />
        ) : (
          <LoadingState />
        )}
      </PageFrame>
    </MemoryContext>
  );
}

function Shown({ status, stale }: { status: MemoryStatus; stale: boolean }) {
  const page = useStrings();
  const strings = useMemoryStrings();
  const navigate = useNavigate({ from: "/memory" });
  const { view: wanted, as_of: asOf, q = "" } = useSearch({ from: "/memory" });
  // The address may name a view that does not exist.
  const view = wanted === "history" ? wanted : "known";
  const seeAsOf = (moment: string) =>
    void navigate({ search: ({ agent }) => ({ ...(agent && { agent }), as_of: moment }) });
  if (asOf !== undefined) return <PastMemory moment={asOf} />;
  return (
    <div className="flex flex-col gap-6">
      {stale && (
        <p role="status" className="rounded-box bg-warning-tint px-3 py-2 text-warning">
          {page.stale}
        </p>
      )}
      <MemorySettings status={status} />
      <div className="flex">
        <Segments<"known" | "history">
          label={strings.view}
          value={view}
          options={strings.views}
          onChoose={(chosen) =>
            void navigate({
              search: ({ agent }) => ({
                ...(agent && { agent }),
                ...(chosen === "history" && { view: chosen }),
              }),
            })
          }
        />
      </div>
      {view === "history" ? (
        <Changes onAsOf={seeAsOf} />
      ) : (
        <>
          <Summaries document={status.data} />
          <Facts
            facts={status.data.facts}
            wanted={q}
            onWant={(wanted) =>
              void navigate({
                search: ({ agent }) => ({ ...(agent && { agent }), ...(wanted && { q: wanted }) }),
                replace: true,
              })
            }
          />
        </>
      )}
    </div>
  );
}

/** Memory at a point in time. */
function PastMemory({ moment }: { moment: string }) {
  const strings = useMemoryStrings();
  const language = useLanguage();
  const navigate = useNavigate({ from: "/memory" });
  const { of } = useShown();
  const server = useServer();
  const then = useQuery({
    queryKey: [...memoryKey(of), "as of", moment],
    queryFn: () => server.memoryAsOf(of, moment),
  });
  const back = () => void navigate({ search: ({ agent }) => ({ ...(agent && { agent }), view: "history" }) });
  return (
    <div className="flex flex-col gap-6">
      <div role="status" className="flex flex-wrap items-center gap-3 rounded-box bg-tint px-3 py-2">
        <History aria-hidden className="size-4 shrink-0 text-faint" />
        <p className="min-w-40 flex-1">{strings.asOfNotice(formatMoment(moment, language))}</p>
        <Button onClick={back}>{strings.backToCurrent}</Button>
      </div>
      {then.isPending ? (
        <LoadingState />
      ) : then.isError ? (
        <ErrorState
          text={`${strings.unavailable} ${sentence(then.error.message)}`}
          onRetry={() => void then.refetch()}
        />
      ) : (
        <>
          <Summaries document={then.data} />
          <Facts facts={then.data.facts} wanted="" onWant={() => undefined} />
        </>
      )}
    </div>
  );
}

const FIRST: FactText = { content: "", category: "preference", confidence: 1 };

function NewFact({ onDone }: { onDone: () => void }) {
  const strings = useMemoryStrings();
  const { of } = useShown();
  const server = useServer();
  const adding = useChange((fact: FactText) => server.addFact(of, fact), {
    text: strings.added,
    undoable: true,
  });
  const isKnown = adding.error instanceof ApiError && adding.error.name === "Conflict";
  return (
    <div className="mb-6 rounded-box border border-line p-4">
      <FactForm
        fact={FIRST}
        submitWord={strings.add}
        busy={adding.isPending}
        problem={isKnown ? strings.known : (adding.error?.message ?? null)}
        onSave={(fact) => adding.mutate(fact, { onSuccess: onDone })}
        onCancel={onDone}
      />
    </div>
  );
}

/** Picker of the memory's owner; each custom agent has its own. */
function OwnerPicker() {
  const strings = useMemoryStrings();
  const navigate = useNavigate({ from: "/memory" });
  const { of } = useShown();
  const server = useServer();
  const agents = useQuery({ queryKey: ["agents"], queryFn: server.agents });
  const names = agents.data?.map(({ name }) => name) ?? [];
  if (names.length === 0 && of === null) return null;
  return (
    <select
      value={of ?? ""}
      aria-label={strings.owner}
      onChange={({ target: { value } }) => void navigate({ search: value === "" ? {} : { agent: value } })}
      className="h-8 max-w-60 rounded-box border border-line-strong bg-raised px-2"
    >
      <option value="">{strings.everybody}</option>
      {[...new Set([...names, ...(of === null ? [] : [of])])].map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

/** Notice of a change, with undo. */
function NoticeBar({ notice }: { notice: Notice | null }): ReactNode {
  const strings = useMemoryStrings();
  const undoing = useUndo();
  return (
    <div role="status" className="sticky top-2 z-10">
      {notice !== null && (
        <div className="mb-4 flex h-11 animate-appear items-center gap-3 rounded-box bg-ink pr-2 pl-4 text-paper shadow-float">
          <p className="min-w-0 flex-1 truncate">{notice.text}</p>
          {notice.group !== null && (
            <button
              type="button"
              disabled={undoing.isPending}
              onClick={() => undoing.mutate({ group: notice.group ?? "" })}
              className="h-8 rounded-box px-2 font-medium underline underline-offset-4 focus-visible:outline-paper"
            >
              {strings.undo}
            </button>
          )}
        </div>
      )}
      {undoing.isError && (
        <p role="alert" className="mb-4 rounded-box bg-error-tint px-3 py-2 text-error">
          {strings.notUndone} {sentence(undoing.error.message)}
        </p>
      )}
    </div>
  );
}
