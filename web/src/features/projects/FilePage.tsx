/** Text of a project file as it was indexed, at the cited passage. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { ArrowLeft, Download } from "lucide-react";
import { useEffect, useRef } from "react";
import { type FilePassages, projectFileUrl } from "@/api/projects";
import { useProjectStrings } from "@/i18n/useProjectStrings";
import { PageFrame } from "@/layout/PageFrame";
import { PROJECTS_KEY } from "@/state/queries";
import { useServer } from "@/state/server";
import { Button, buttonLook } from "@/ui/Button";
import { ErrorState, LoadingState } from "@/ui/states";

/** Number of passages per request; the server's default. */
const PER_PAGE = 200;
const BEFORE = 20;

type Passage = FilePassages["passages"][number];

export function FilePage() {
  const { projectId, fileId } = useParams({ from: "/projects/$projectId/files/$fileId" });
  const { passage } = useSearch({ from: "/projects/$projectId/files/$fileId" });
  const strings = useProjectStrings();
  const server = useServer();
  const project = useQuery({
    queryKey: [...PROJECTS_KEY, projectId],
    queryFn: () => server.project(projectId),
  });
  const text = useInfiniteQuery({
    queryKey: [...PROJECTS_KEY, projectId, "passages", fileId, passage ?? 1],
    queryFn: ({ pageParam }) => server.filePassages(projectId, fileId, pageParam),
    initialPageParam: Math.max(1, (passage ?? 1) - BEFORE),
    getNextPageParam: ({ file, passages }) => {
      const next = (passages.at(-1)?.number ?? file.passages) + 1;
      return next > file.passages ? undefined : next;
    },
    getPreviousPageParam: ({ passages }) => {
      const first = passages[0]?.number ?? 1;
      return first > 1 ? Math.max(1, first - PER_PAGE) : undefined;
    },
  });
  const file = text.data?.pages[0]?.file;
  const name = file?.name ?? "";
  return (
    <PageFrame
      title={name}
      actions={
        <a
          href={`${projectFileUrl(projectId, fileId)}?download=true`}
          download={name}
          className={`${buttonLook()} gap-1`}
        >
          <Download aria-hidden className="size-4" />
          <span className="sr-only wide:not-sr-only">{strings.original}</span>
        </a>
      }
    >
      <p className="mb-4">
        <Link
          to="/projects/$projectId"
          params={{ projectId }}
          className="inline-flex items-center gap-1 text-small text-soft hover:text-ink"
        >
          <ArrowLeft aria-hidden className="size-4 shrink-0" />
          {project.data?.name ?? strings.projects}
        </Link>
      </p>
      {text.isPending && <LoadingState />}
      {text.isError && <ErrorState text={strings.unavailable} onRetry={() => void text.refetch()} />}
      {file !== undefined && file.passages === 0 && <p className="text-faint">{strings.noText}</p>}
      {text.hasPreviousPage && (
        <Button onClick={() => void text.fetchPreviousPage()}>{strings.earlier}</Button>
      )}
      {file !== undefined && (
        <Passages
          passages={unique(text.data?.pages.flatMap((page) => page.passages) ?? [])}
          unit={file.unit}
          cited={passage ?? null}
        />
      )}
      {text.hasNextPage && <Button onClick={() => void text.fetchNextPage()}>{strings.later}</Button>}
    </PageFrame>
  );
}

/** Pages may overlap at the beginning of the file. */
function unique(passages: readonly Passage[]): readonly Passage[] {
  return [...new Map(passages.map((passage) => [passage.number, passage])).values()];
}

interface Props {
  readonly passages: readonly Passage[];
  readonly unit: FilePassages["file"]["unit"];
  readonly cited: number | null;
}

function Passages({ passages, unit, cited }: Props) {
  const strings = useProjectStrings();
  const place = useRef<HTMLDivElement>(null);
  const isLoaded = passages.some(({ number }) => number === cited);
  useEffect(() => {
    if (isLoaded) place.current?.scrollIntoView({ block: "center" });
  }, [isLoaded]);
  return (
    <div className="my-4 flex flex-col gap-3">
      {passages.map(({ number, position, text }, index) => {
        const isCited = number === cited;
        const begins = unit !== "line" && passages[index - 1]?.position !== position;
        const heading = begins || isCited ? strings.position(unit, position) : null;
        return (
          <div key={number} ref={isCited ? place : null}>
            {heading !== null && <h2 className="mb-1 text-small text-faint">{heading}</h2>}
            {isCited ? (
              <blockquote
                aria-label={strings.cited}
                className="rounded-box border-l-4 border-accent bg-tint px-3 py-2 whitespace-pre-wrap [overflow-wrap:anywhere]"
              >
                {text}
              </blockquote>
            ) : (
              <p className="whitespace-pre-wrap text-soft [overflow-wrap:anywhere]">{text}</p>
            )}
          </div>
        );
      })}
    </div>
  );
}
