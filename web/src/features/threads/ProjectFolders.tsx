/** Projects as folders of the thread list. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { ChevronRight, Folder, FolderOpen, Plus } from "lucide-react";
import { type FormEvent, useState } from "react";
import type { Project } from "@/api/projects";
import { ThreadRow } from "@/features/threads/ThreadRow";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useProjectStrings } from "@/i18n/useProjectStrings";
import { usePage } from "@/state/context";
import { PROJECTS_KEY } from "@/state/queries";
import { useServer } from "@/state/server";
import { useThreads } from "@/state/threadList";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Line } from "@/ui/fields";
import { IconButton } from "@/ui/IconButton";

export default function ProjectFolders() {
  const strings = useProjectStrings();
  const server = useServer();
  const [creating, setCreating] = useState(false);
  const projects = useQuery({ queryKey: PROJECTS_KEY, queryFn: server.projects });
  return (
    <section
      aria-label={strings.projects}
      className="flex max-h-[40%] shrink-0 flex-col border-b border-line px-3 pb-2"
    >
      <div className="flex h-8 shrink-0 items-center justify-between pl-2">
        <span className="text-small text-faint">{strings.projects}</span>
        <IconButton icon={Plus} label={strings.newProject} onClick={() => setCreating(true)} />
      </div>
      {projects.data?.length !== 0 && (
        <ul className="min-h-0 overflow-y-auto">
          {projects.data?.map((project) => (
            <FolderRow key={project.project_id} project={project} />
          ))}
        </ul>
      )}
      {creating && <NewProject onClose={() => setCreating(false)} />}
    </section>
  );
}

function FolderRow({ project: { project_id: id, name } }: { project: Project }) {
  const strings = useProjectStrings();
  const current = usePage((page) => page.threadId);
  const threads = useThreads();
  const listed = threads.phase === "ready" ? threads.value : [];
  const own = listed.filter(({ projectId, archived }) => projectId === id && !archived);
  const [open, setOpen] = useState(() => own.some((thread) => thread.id === current));
  const Icon = open ? FolderOpen : Folder;
  return (
    <li>
      <div className="flex h-8 items-center rounded-box pointer-coarse:h-11 text-soft has-[a[aria-current]]:bg-tint-strong hover:bg-tint hover:text-ink">
        <button
          type="button"
          aria-expanded={open}
          aria-label={strings.expand(name)}
          onClick={() => setOpen(!open)}
          className="inline-flex size-8 shrink-0 items-center justify-center rounded-box text-faint"
        >
          <ChevronRight
            aria-hidden
            className={`size-4 motion-safe:transition-transform ${open ? "rotate-90" : ""}`}
          />
        </button>
        <Link
          to="/projects/$projectId"
          params={{ projectId: id }}
          aria-label={strings.open(name)}
          className="flex h-full min-w-0 flex-1 items-center gap-2 pr-2"
        >
          <Icon aria-hidden className="size-4 shrink-0" />
          <span className="truncate">{name}</span>
        </Link>
      </div>
      {open && (
        <ul className="pl-6">
          {own.length === 0 && <li className="px-2 py-1 text-small text-faint">{strings.noThreads}</li>}
          {own.map((thread) => (
            <li key={thread.id} className="group relative h-8 pointer-coarse:h-11">
              <ThreadRow thread={thread} />
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

function NewProject({ onClose }: { onClose: () => void }) {
  const common = useStrings();
  const strings = useProjectStrings();
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const create = useMutation({
    networkMode: "always",
    mutationFn: () => server.createProject(name),
    onSuccess: async ({ project_id: projectId }) => {
      await queries.invalidateQueries({ queryKey: PROJECTS_KEY });
      onClose();
      await navigate({ to: "/projects/$projectId", params: { projectId } });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() !== "") create.mutate();
  };
  return (
    <Dialog label={strings.newProject} onClose={onClose} className="w-[min(26rem,92vw)]">
      <form onSubmit={submit} className="flex flex-col gap-4 p-5">
        <h2 className="text-title font-semibold">{strings.newProject}</h2>
        <Line name={strings.name} hint={strings.projectHint} value={name} onChange={setName} />
        {create.isError && (
          <p role="alert" className="text-small text-error">
            {strings.notCreated} {sentence(create.error.message)}
          </p>
        )}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{common.cancel}</Button>
          <Button primary type="submit" disabled={name.trim() === "" || create.isPending}>
            {strings.create}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
