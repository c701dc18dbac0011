/** List of the sources of an answer: site, title, saved copy and the state of its citations. */

import { useQuery } from "@tanstack/react-query";
import { ChevronRight, CircleAlert, CircleCheck, CircleDashed } from "lucide-react";
import { useMemo, useState } from "react";
import { checkedStates, type Source } from "@/features/chat/message/citations";
import { foundPassages, passageState } from "@/features/chat/message/passages";
import { type SourceState, useAnswerStrings } from "@/i18n/answers";
import { useIsReader, usePage } from "@/state/context";
import { useServer } from "@/state/server";
import { useFileUrls } from "@/ui/FileUrls";

interface Props {
  readonly sources: readonly Source[];
}

export default function Sources({ sources }: Props) {
  const strings = useAnswerStrings();
  const [open, setOpen] = useState(false);
  return (
    <section aria-label={strings.sources(sources.length)}>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="-ml-1 flex h-7 items-center gap-1 rounded-box pr-2 text-ui text-faint hover:text-ink"
      >
        <ChevronRight aria-hidden className={`size-4 transition-transform ${open ? "rotate-90" : ""}`} />
        {strings.sources(sources.length)}
      </button>
      {open && <SourceList sources={sources} />}
    </section>
  );
}

function SourceList({ sources }: Props) {
  const threadId = usePage((page) => page.threadId);
  const settled = usePage(({ conversation }) => conversation.settled);
  const isReader = useIsReader();
  const server = useServer();
  const states = useMemo(() => checkedStates(settled.values()), [settled]);
  const passages = useMemo(() => foundPassages(settled.values()), [settled]);
  const pages = useQuery({
    queryKey: ["thread", threadId, "web-pages"],
    queryFn: () => server.webPages(threadId ?? ""),
    enabled: threadId !== null && !isReader,
  });
  const read = new Set(
    pages.data
      ?.filter(({ problem, is_kept }) => problem === null && is_kept)
      .flatMap(({ url, asked_url }) => [url, asked_url]),
  );
  return (
    <ol className="mt-1 divide-y divide-line rounded-box border border-line">
      {sources.map((source) => {
        if (source.url.startsWith("/")) {
          const found = passageState(source, passages);
          return <SourceRow key={source.url} source={source} state={found} isRead={false} />;
        }
        const isRead = read.has(source.url);
        const state = states.get(source.url) ?? (pages.data && (isRead ? "read" : "unread"));
        return <SourceRow key={source.url} source={source} state={state} isRead={isRead} />;
      })}
    </ol>
  );
}

interface RowProps {
  readonly source: Source;
  readonly state: SourceState | undefined;
  readonly isRead: boolean;
}

function SourceRow({ source, state, isRead }: RowProps) {
  const strings = useAnswerStrings();
  const { webPage } = useFileUrls();
  return (
    <li className="flex items-start gap-3 px-3 py-2">
      <span className="mt-px w-5 shrink-0 text-right text-small text-faint tabular-nums">
        {source.number}
      </span>
      <div className="min-w-0 flex-1">
        <a
          href={source.url}
          target="_blank"
          rel="noopener noreferrer"
          className="line-clamp-2 hover:underline"
        >
          {source.title}
        </a>
        <p className="flex flex-wrap items-center gap-x-3 text-small text-faint">
          {source.site || strings.projectFile}
          {webPage !== undefined && isRead && (
            <a
              href={webPage(source.url)}
              target="_blank"
              rel="noopener noreferrer"
              className="underline underline-offset-2 hover:text-ink"
            >
              {strings.savedCopy}
            </a>
          )}
        </p>
      </div>
      {state !== undefined && <State state={state} />}
    </li>
  );
}

function State({ state }: { state: SourceState }) {
  const strings = useAnswerStrings();
  const isUnchecked = state === "read" || state === "found";
  const Icon = state === "verified" ? CircleCheck : isUnchecked ? CircleDashed : CircleAlert;
  const colour = state === "verified" ? "text-done" : isUnchecked ? "text-faint" : "text-warning";
  return (
    <span className={`flex shrink-0 items-center gap-1 text-small ${colour}`}>
      <Icon aria-hidden className="size-4" />
      {strings.sourceStates[state]}
    </span>
  );
}
