/** Memory of a project. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { X } from "lucide-react";
import { type FormEvent, useState } from "react";
import { ApiError } from "@/api/http";
import type { MemoryDocument } from "@/api/memory";
import { Problem, Section } from "@/features/projects/Section";
import { sentence } from "@/i18n/i18n";
import { useProjectStrings } from "@/i18n/useProjectStrings";
import { PROJECTS_KEY } from "@/state/queries";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { INPUT } from "@/ui/fields";
import { IconButton } from "@/ui/IconButton";

export function ProjectFacts({ id }: { id: string }) {
  const strings = useProjectStrings();
  const server = useServer();
  const queries = useQueryClient();
  const [content, setContent] = useState("");
  const queryKey = [...PROJECTS_KEY, id, "memory"];
  const memory = useQuery({ queryKey, queryFn: () => server.projectMemory(id) });
  const change = useMutation({
    networkMode: "always",
    mutationFn: (make: () => Promise<MemoryDocument>) => make(),
    onSuccess: async (document) => {
      await queries.cancelQueries({ queryKey });
      queries.setQueryData(queryKey, document);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (content.trim() === "") return;
    change.mutate(() => server.addProjectFact(id, content), { onSuccess: () => setContent("") });
  };
  const problem = change.error ?? memory.error;
  const isKnown = problem instanceof ApiError && problem.name === "Conflict";
  return (
    <Section title={strings.memory}>
      <p className="mb-2 text-small text-faint">{strings.memoryHint}</p>
      {problem && <Problem text={isKnown ? strings.knownFact : sentence(problem.message)} />}
      {memory.data?.facts.length === 0 && <p className="mb-2 text-faint">{strings.noFacts}</p>}
      {memory.data !== undefined && memory.data.facts.length > 0 && (
        <ul aria-label={strings.memory} className="mb-2 divide-y divide-line rounded-box border border-line">
          {memory.data.facts.map((fact) => (
            <li key={fact.id} className="flex items-start gap-3 py-1 pr-2 pl-4">
              <span className="min-w-0 flex-1 py-1 [overflow-wrap:anywhere]">{fact.content}</span>
              <IconButton
                icon={X}
                label={strings.removeFact}
                disabled={change.isPending}
                onClick={() => change.mutate(() => server.removeProjectFact(id, fact.id))}
              />
            </li>
          ))}
        </ul>
      )}
      <form onSubmit={submit} className="flex gap-2">
        <input
          value={content}
          maxLength={4000}
          aria-label={strings.newFact}
          placeholder={strings.newFact}
          onChange={(event) => setContent(event.target.value)}
          className={`${INPUT} min-w-0 flex-1 placeholder:text-faint`}
        />
        <Button type="submit" disabled={content.trim() === "" || change.isPending} className="h-9">
          {strings.add}
        </Button>
      </form>
    </Section>
  );
}
