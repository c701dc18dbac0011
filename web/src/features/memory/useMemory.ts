/** Reads and changes the memory that is on the page. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, use } from "react";
import { isUnderWay, type MemoryDocument, type MemoryOf, type MemoryStatus } from "@/api/memory";
import { useLanguage, usePage } from "@/app/context";
import { useServer } from "@/app/server";
import type { Language } from "@/i18n/i18n";
import { memoryStringsEn, memoryStringsZh } from "@/i18n/memory";

/** What is said after a change; `group` undoes it. */
export interface Notice {
  readonly text: string;
  readonly group: string | null;
}

interface Shown {
  readonly of: MemoryOf;
  /** Not that of an earlier time. */
  readonly isNow: boolean;
  readonly revision: number;
  readonly say: (notice: Notice | null) => void;
}

export const MemoryContext = createContext<Shown>({
  of: null,
  isNow: false,
  revision: 0,
  say: () => undefined,
});

/** The memory that is shown, and where to say what became of it. */
export function useShown(): Shown {
  return use(MemoryContext);
}

const WORDS: Readonly<Record<Language, typeof memoryStringsEn>> = {
  en: memoryStringsEn,
  zh: memoryStringsZh,
};

export function useMemoryStrings(): typeof memoryStringsEn {
  return WORDS[useLanguage()];
}

const WATCH_MS = 2000;

/** What is known, looked at again while there is something to learn. */
export function useMemory(of: MemoryOf) {
  const server = useServer();
  return useQuery({
    queryKey: keyOf(of),
    queryFn: () => server.memory(of),
    refetchInterval: ({ state }) => (state.data?.pending.some(isUnderWay) ? WATCH_MS : false),
  });
}

interface Said {
  readonly text: string;
  readonly undoable: boolean;
}

/** A change of the memory: shown at once when the server has taken it, and said. */
export function useChange<Given>(change: (given: Given) => Promise<MemoryDocument>, said: Said) {
  const { of, say } = useShown();
  const server = useServer();
  const queries = useQueryClient();
  return useMutation({
    // Somebody who is offline is told so, instead of a change that happens some time later.
    networkMode: "always",
    mutationFn: change,
    onMutate: () => say(null),
    onSuccess: async (data) => {
      queries.setQueryData<MemoryStatus>(keyOf(of), (status) => status && { ...status, data });
      const group = said.undoable ? await newest() : null;
      say({ text: said.text, group });
      await queries.invalidateQueries({ queryKey: ["memory"] });
    },
  });

  async function newest(): Promise<string | null> {
    const history = await server.memoryHistory(of, 1, null).catch(() => null);
    return history?.changes[0]?.group ?? null;
  }
}

/** Undoes a change, or all of a group. */
export function useUndo() {
  const { of } = useShown();
  const server = useServer();
  const strings = useMemoryStrings();
  return useChange((which: { change_id: string } | { group: string }) => server.undoMemory(of, which), {
    text: strings.undoneNow,
    undoable: false,
  });
}

export function keyOf(of: MemoryOf): readonly string[] {
  return ["memory", of ?? ""];
}

/** What a thread is called. */
export function useThreadTitle(threadId: string | null): string | null {
  return usePage(({ threads }) => {
    if (threads.phase !== "ready") return null;
    return threads.value.find(({ id }) => id === threadId)?.title ?? null;
  });
}
