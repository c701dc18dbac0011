/** Dialog that moves a thread to a project. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useProjectStrings } from "@/i18n/useProjectStrings";
import { useActions } from "@/state/context";
import { PROJECTS_KEY } from "@/state/queries";
import { useServer } from "@/state/server";
import type { Thread } from "@/state/threadList";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";

interface Props {
  readonly thread: Thread;
  readonly title: string;
  readonly onClose: () => void;
}

export default function MoveDialog({ thread, title, onClose }: Props) {
  const common = useStrings();
  const strings = useProjectStrings();
  const server = useServer();
  const actions = useActions();
  const queries = useQueryClient();
  const [target, setTarget] = useState(thread.projectId);
  const projects = useQuery({ queryKey: PROJECTS_KEY, queryFn: server.projects });
  const move = useMutation({
    networkMode: "always",
    mutationFn: () => server.moveThread(thread.id, thread.projectId, target),
    onSuccess: async () => {
      await Promise.all([actions.refreshThreads(), queries.invalidateQueries({ queryKey: PROJECTS_KEY })]);
      onClose();
    },
  });
  const choices = [
    { id: null, name: strings.noProject },
    ...(projects.data ?? []).map(({ project_id: id, name }) => ({ id, name })),
  ];
  return (
    <Dialog label={strings.move(title)} onClose={onClose} className="w-[min(26rem,92vw)]">
      <div className="flex max-h-[80dvh] flex-col gap-4 p-5">
        <h2 className="truncate text-title font-semibold">{strings.move(title)}</h2>
        <fieldset className="flex min-h-0 flex-col overflow-y-auto">
          <legend className="sr-only">{strings.projects}</legend>
          {choices.map(({ id, name }) => (
            <label key={id} className="flex min-h-9 items-center gap-2 rounded-box px-2 hover:bg-tint">
              <input
                type="radio"
                name="project"
                checked={target === id}
                onChange={() => setTarget(id)}
                className="accent-accent"
              />
              <span className="truncate">{name}</span>
            </label>
          ))}
        </fieldset>
        {move.isError && (
          <p role="alert" className="text-small text-error">
            {strings.notMoved} {sentence(move.error.message)}
          </p>
        )}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{common.cancel}</Button>
          <Button
            primary
            disabled={target === thread.projectId || move.isPending}
            onClick={() => move.mutate()}
          >
            {strings.moveHere}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
