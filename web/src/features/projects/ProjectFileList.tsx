/** Files of a project with the state of their index. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { FileUp, RotateCw, Trash2 } from "lucide-react";
import { useRef, useState } from "react";
import type { ProjectFile, ProjectFiles } from "@/api/projects";
import { Problem, Section } from "@/features/projects/Section";
import { FileIcon } from "@/files/FileIcon";
import { useLanguage } from "@/i18n/context";
import { formatSize } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { useProjectStrings } from "@/i18n/useProjectStrings";
import { PROJECTS_KEY } from "@/state/queries";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { IconButton } from "@/ui/IconButton";
import { EmptyState, ErrorState, LoadingState } from "@/ui/states";

const PAGE = 100;
const WATCH_MS = 1500;
const FILES_PER_REQUEST = 10;

export function ProjectFileList({ id }: { id: string }) {
  const strings = useProjectStrings();
  const server = useServer();
  const [limit, setLimit] = useState(PAGE);
  const picker = useRef<HTMLInputElement>(null);
  const files = useQuery({
    queryKey: [...PROJECTS_KEY, id, "files", limit],
    queryFn: () => server.projectFiles(id, limit),
    placeholderData: (known) => known,
    refetchInterval: ({ state }) => (isIndexing(state.data) ? WATCH_MS : false),
  });
  const upload = useUpload(id);
  return (
    <Section
      title={strings.files}
      action={
        <Button
          disabled={upload.isPending}
          onClick={() => picker.current?.click()}
          className="inline-flex items-center gap-1"
        >
          <FileUp aria-hidden className="size-4" />
          {strings.addFiles}
        </Button>
      }
    >
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label={strings.addFiles}
        onChange={({ target }) => {
          upload.mutate([...(target.files ?? [])]);
          target.value = "";
        }}
      />
      <p className="mb-2 text-small text-faint">{strings.filesHint}</p>
      {upload.isPending && (
        <p role="status" className="mb-2 rounded-box bg-tint px-3 py-2">
          {strings.adding(upload.done, upload.variables.length)}
        </p>
      )}
      {upload.isError && <Problem text={`${strings.notAdded} ${sentence(upload.error.message)}`} />}
      {upload.data?.map(({ filename, reason }) => (
        <Problem key={filename} text={`${filename}: ${reason}`} />
      ))}
      {files.isPending && <LoadingState />}
      {files.isError && <ErrorState text={strings.unavailable} onRetry={() => void files.refetch()} />}
      {files.data && (
        <Listed
          id={id}
          files={files.data}
          onMore={() => setLimit(limit + PAGE)}
          onAdd={() => picker.current?.click()}
        />
      )}
    </Section>
  );
}

function isIndexing(files: ProjectFiles | undefined): boolean {
  return (files?.states.waiting ?? 0) + (files?.states.indexing ?? 0) > 0;
}

/** Adds files a few at a time, and resolves to those that were skipped. */
function useUpload(id: string) {
  const server = useServer();
  const queries = useQueryClient();
  const [done, setDone] = useState(0);
  const mutation = useMutation({
    networkMode: "always",
    mutationFn: async (files: readonly File[]) => {
      const skipped = [];
      setDone(0);
      for (let start = 0; start < files.length; start += FILES_PER_REQUEST) {
        const added = await server.addProjectFiles(id, files.slice(start, start + FILES_PER_REQUEST));
        skipped.push(...added.skipped_files);
        setDone(Math.min(start + FILES_PER_REQUEST, files.length));
        void queries.invalidateQueries({ queryKey: [...PROJECTS_KEY, id, "files"] });
      }
      return skipped;
    },
    onSettled: () => queries.invalidateQueries({ queryKey: [...PROJECTS_KEY, id, "files"] }),
  });
  return Object.assign({}, mutation, { done });
}

interface ListedProps {
  readonly id: string;
  readonly files: ProjectFiles;
  readonly onMore: () => void;
  readonly onAdd: () => void;
}

function Listed({ id, files, onMore, onAdd }: ListedProps) {
  const strings = useProjectStrings();
  const { ready = 0, failed = 0, waiting = 0, indexing = 0 } = files.states;
  const all = ready + failed + waiting + indexing;
  if (all === 0)
    return (
      <EmptyState text={strings.noFiles}>
        <Button onClick={onAdd}>{strings.chooseFiles}</Button>
      </EmptyState>
    );
  const model = files.embedding_model;
  return (
    <>
      <p role="status" className="mb-2 text-small text-soft">
        {strings.progress(ready, all)} {failed > 0 && strings.failed(failed)}{" "}
        {model === null ? strings.wordsOnly : strings.byMeaning(model)}{" "}
        {model === null && (
          <Link to="/settings" hash="embeddings" className="text-accent underline underline-offset-2">
            {strings.connectEmbedding}
          </Link>
        )}
      </p>
      <ul aria-label={strings.files} className="divide-y divide-line rounded-box border border-line">
        {files.files.map((file) => (
          <FileRow key={file.file_id} id={id} file={file} />
        ))}
      </ul>
      {files.files.length < all && (
        <Button onClick={onMore} className="mt-2">
          {strings.more}
        </Button>
      )}
    </>
  );
}

function FileRow({ id, file }: { id: string; file: ProjectFile }) {
  const strings = useProjectStrings();
  const language = useLanguage();
  const server = useServer();
  const queries = useQueryClient();
  const settle = () => queries.invalidateQueries({ queryKey: [...PROJECTS_KEY, id, "files"] });
  const again = useMutation({
    networkMode: "always",
    mutationFn: () => server.retryProjectFile(id, file.file_id),
    onSettled: settle,
  });
  const remove = useMutation({
    networkMode: "always",
    mutationFn: () => server.deleteProjectFile(id, file.file_id),
    onSettled: settle,
  });
  const failure = again.error?.message ?? remove.error?.message;
  const problem = failure
    ? sentence(failure)
    : file.problem && (strings.problems[file.problem] ?? file.problem);
  return (
    <li className="flex items-start gap-3 px-4 py-2">
      <FileIcon path={file.name} />
      <div className="min-w-0 flex-1">
        <Link
          to="/projects/$projectId/files/$fileId"
          params={{ projectId: id, fileId: file.file_id }}
          className="block truncate font-medium hover:underline"
        >
          {file.name}
        </Link>
        <p className="text-small text-faint [overflow-wrap:anywhere]">
          <State file={file} /> · {formatSize(file.size, language)}
        </p>
        {problem !== null && <p className="text-small text-error [overflow-wrap:anywhere]">{problem}</p>}
      </div>
      {file.state === "failed" && (
        <IconButton
          icon={RotateCw}
          label={strings.retry(file.name)}
          disabled={again.isPending}
          onClick={() => again.mutate()}
        />
      )}
      <IconButton
        icon={Trash2}
        label={strings.deleteFile(file.name)}
        disabled={remove.isPending}
        onClick={() => remove.mutate()}
      />
    </li>
  );
}

function State({ file: { state, unit, pages } }: { file: ProjectFile }) {
  const strings = useProjectStrings();
  switch (state) {
    case "waiting":
      return <span>{strings.waiting}</span>;
    case "indexing":
      return <span className="text-running">{strings.indexing}</span>;
    case "ready":
      return <span className="text-done">{strings.ready(unit, pages)}</span>;
    default:
      return <span className="text-error">{strings.unreadable}</span>;
  }
}
