/** A project: threads, instructions, files and memory. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { MessageSquare, Pencil, SquarePen, Trash2 } from "lucide-react";
import { type FormEvent, useCallback, useEffect, useRef, useState } from "react";
import type { Project } from "@/api/projects";
import { ProjectFacts } from "@/features/projects/ProjectFacts";
import { ProjectFileList } from "@/features/projects/ProjectFileList";
import { Problem, Section } from "@/features/projects/Section";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useProjectStrings } from "@/i18n/useProjectStrings";
import { PageFrame } from "@/layout/PageFrame";
import { useActions } from "@/state/context";
import { PROJECTS_KEY, toProblem } from "@/state/queries";
import { useFeature, useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { newId } from "@/ui/dom/newId";
import { INPUT } from "@/ui/fields";
import { IconButton } from "@/ui/IconButton";
import { RelativeTime } from "@/ui/RelativeTime";
import { EmptyState, ErrorState, LoadingState } from "@/ui/states";

const UNDO_FOR_MS = 6000;

export function ProjectPage() {
  const { projectId } = useParams({ from: "/projects/$projectId" });
  const strings = useProjectStrings();
  const server = useServer();
  const project = useQuery({
    queryKey: [...PROJECTS_KEY, projectId],
    queryFn: () => server.project(projectId),
  });
  if (project.isPending) {
    return (
      <PageFrame title={strings.projects}>
        <LoadingState />
      </PageFrame>
    );
  }
  if (project.isError) {
    const gone = toProblem(project.error) === "missing";
    return (
      <PageFrame title={strings.projects}>
        <ErrorState
          text={gone ? strings.missing : strings.unavailable}
          {...(!gone && { onRetry: () => void project.refetch() })}
        />
      </PageFrame>
    );
  }
  return <Loaded key={projectId} project={project.data} />;
}

function Loaded({ project }: { project: Project }) {
  const strings = useProjectStrings();
  const [renaming, setRenaming] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const hasMemory = useFeature("memory");
  const id = project.project_id;
  return (
    <PageFrame
      title={project.name}
      actions={
        <>
          <IconButton icon={Pencil} label={strings.rename} onClick={() => setRenaming(true)} />
          <IconButton icon={Trash2} label={strings.remove} onClick={() => setDeleting(true)} />
        </>
      }
    >
      <div className="flex flex-col gap-8">
        {deleting && <Deletion id={id} onUndo={() => setDeleting(false)} />}
        {renaming && <Rename project={project} onDone={() => setRenaming(false)} />}
        <Threads id={id} />
        <Instructions project={project} />
        <ProjectFileList id={id} />
        {hasMemory && <ProjectFacts id={id} />}
      </div>
    </PageFrame>
  );
}

/** Deletes the project after a while, or when the view is left. */
function Deletion({ id, onUndo }: { id: string; onUndo: () => void }) {
  const common = useStrings();
  const strings = useProjectStrings();
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const actions = useActions();
  const settled = useRef(false);
  const finish = useCallback(async () => {
    if (settled.current) return;
    settled.current = true;
    await server.deleteProject(id).catch(() => undefined);
    await actions.refreshThreads();
    await queries.invalidateQueries({ queryKey: PROJECTS_KEY, exact: true });
  }, [server, id, actions, queries]);
  useEffect(() => {
    const now = () => void finish();
    const timer = setTimeout(() => void finish().then(() => navigate({ to: "/" })), UNDO_FOR_MS);
    window.addEventListener("pagehide", now);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("pagehide", now);
      now();
    };
  }, [finish, navigate]);
  const undo = () => {
    settled.current = true;
    onUndo();
  };
  return (
    <div role="status" className="flex items-center gap-3 rounded-box bg-warning-tint px-3 py-2">
      <p className="min-w-0 flex-1">{strings.removed}</p>
      <Button onClick={undo}>{common.undo}</Button>
    </div>
  );
}

/** Mutation that changes the project. */
function useProjectChange(id: string, onDone: () => void) {
  const server = useServer();
  const queries = useQueryClient();
  return useMutation({
    networkMode: "always",
    mutationFn: (change: Partial<Pick<Project, "name" | "instructions">>) => server.changeProject(id, change),
    onSuccess: async (changed) => {
      await queries.cancelQueries({ queryKey: [...PROJECTS_KEY, id], exact: true });
      queries.setQueryData([...PROJECTS_KEY, id], changed);
      await queries.invalidateQueries({ queryKey: PROJECTS_KEY, exact: true });
      onDone();
    },
  });
}

function Rename({ project, onDone }: { project: Project; onDone: () => void }) {
  const common = useStrings();
  const strings = useProjectStrings();
  const [name, setName] = useState(project.name);
  const change = useProjectChange(project.project_id, onDone);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() !== "") change.mutate({ name });
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-2">
      <div className="flex items-center gap-2">
        <input
          ref={(field) => field?.focus()}
          value={name}
          maxLength={200}
          aria-label={strings.name}
          onChange={(event) => setName(event.target.value)}
          className={`${INPUT} min-w-0 flex-1`}
        />
        <Button onClick={onDone}>{common.cancel}</Button>
        <Button primary type="submit" disabled={name.trim() === "" || change.isPending}>
          {common.save}
        </Button>
      </div>
      {change.isError && <Problem text={`${strings.notSaved} ${sentence(change.error.message)}`} />}
    </form>
  );
}

function Threads({ id }: { id: string }) {
  const common = useStrings();
  const strings = useProjectStrings();
  const server = useServer();
  const navigate = useNavigate();
  const threads = useQuery({
    queryKey: [...PROJECTS_KEY, id, "threads"],
    queryFn: () => server.projectThreads(id),
  });
  const begin = useMutation({
    networkMode: "always",
    mutationFn: async () => {
      const threadId = newId();
      await server.moveThread(threadId, null, id);
      return threadId;
    },
    onSuccess: (threadId) => navigate({ to: "/threads/$threadId", params: { threadId } }),
  });
  return (
    <Section
      title={strings.threads}
      action={
        <Button primary disabled={begin.isPending} onClick={() => begin.mutate()} className="gap-1">
          <SquarePen aria-hidden className="size-4" />
          <span className="sr-only">{strings.newThread}</span>
          <span aria-hidden>{common.newThread}</span>
        </Button>
      }
    >
      {begin.isError && <Problem text={sentence(begin.error.message)} />}
      {threads.data?.length === 0 && (
        <EmptyState text={strings.noThreads}>
          <Button disabled={begin.isPending} onClick={() => begin.mutate()}>
            {common.startThread}
          </Button>
        </EmptyState>
      )}
      {threads.data !== undefined && threads.data.length > 0 && (
        <ul aria-label={strings.threads} className="divide-y divide-line rounded-box border border-line">
          {threads.data.map(({ thread_id: threadId, values, metadata, updated_at: at }) => (
            <li key={threadId} className="flex items-center gap-3 px-4 py-2">
              <MessageSquare aria-hidden className="size-4 shrink-0 text-faint" />
              <Link
                to="/threads/$threadId"
                params={{ threadId }}
                className="min-w-0 flex-1 truncate hover:underline"
              >
                {titleOf(metadata.title) ?? titleOf(values?.title) ?? common.untitled}
              </Link>
              <span className="shrink-0 text-small text-faint">
                <RelativeTime at={at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

function titleOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function Instructions({ project }: { project: Project }) {
  const common = useStrings();
  const strings = useProjectStrings();
  const [text, setText] = useState(project.instructions);
  const [saved, setSaved] = useState(false);
  const change = useProjectChange(project.project_id, () => setSaved(true));
  const isChanged = text.trim() !== project.instructions;
  return (
    <Section title={strings.instructions}>
      <p id="instructions-hint" className="mb-2 text-small text-faint">
        {strings.instructionsHint}
      </p>
      <textarea
        value={text}
        rows={4}
        maxLength={20_000}
        aria-label={strings.instructions}
        aria-describedby="instructions-hint"
        onChange={(event) => {
          setText(event.target.value);
          setSaved(false);
        }}
        className="field-sizing-content max-h-96 min-h-24 w-full resize-none rounded-box border border-line-strong bg-raised px-3 py-2 outline-none focus:border-accent"
      />
      <div className="mt-2 flex items-center justify-end gap-3">
        {change.isError && <Problem text={`${strings.notSaved} ${sentence(change.error.message)}`} />}
        {saved && !isChanged && (
          <span role="status" className="text-small text-faint">
            {strings.saved}
          </span>
        )}
        <Button
          primary
          disabled={!isChanged || change.isPending}
          onClick={() => change.mutate({ instructions: text })}
        >
          {common.save}
        </Button>
      </div>
    </Section>
  );
}
