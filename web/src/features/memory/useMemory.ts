/** Queries and mutations of the memory page. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, use } from "react";
import { isUnderWay, type MemoryDocument, type MemoryOf, type MemoryStatus } from "@/api/memory";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { memoryKey } from "@/state/queries";
import { useServer } from "@/state/server";
import { useThread } from "@/state/threadList";

/** Notice after a change; `group` identifies it for undo. */
export interface Notice {
  readonly text: string;
  readonly group: string | null;
}

interface Shown {
  readonly of: MemoryOf;
  /** The current memory, not a past one. */
  readonly isNow: boolean;
  readonly revision: number;
  readonly say: (notice: Notice | null) => void;
  /** Open the form for a new fact. */
  readonly add: () => void;
}

export const MemoryContext = createContext<Shown>({
  of: null,
  isNow: false,
  revision: 0,
  say: () => undefined,
  add: () => undefined,
});

/** The memory shown and the notice setter. */
export function useShown(): Shown {
  return use(MemoryContext);
}

const WATCH_MS = 2000;

/** Load the memory, polling while extractions are pending. */
export function useMemory(of: MemoryOf) {
  const server = useServer();
  return useQuery({
    queryKey: memoryKey(of),
    queryFn: () => server.memory(of),
    refetchInterval: ({ state }) => (state.data?.pending.some(isUnderWay) ? WATCH_MS : false),
  });
}

interface ChangeNotice {
  readonly text: string;
  readonly undoable: boolean;
}

/** Mutation that updates the cached memory and shows a notice. */
export function useChange<Given>(change: (given: Given) => Promise<MemoryDocument>, notice: ChangeNotice) {
  const { of, say } = useShown();
  const server = useServer();
  const queries = useQueryClient();
  return useMutation({
    // Fail while offline instead of pausing the mutation.
    networkMode: "always",
    mutationFn: change,
    onMutate: () => say(null),
    onSuccess: async (data) => {
      queries.setQueryData<MemoryStatus>(memoryKey(of), (status) => status && { ...status, data });
      const group = notice.undoable ? await newest() : null;
      say({ text: notice.text, group });
      await queries.invalidateQueries({ queryKey: ["memory"] });
    },
  });

  async function newest(): Promise<string | null> {
    const history = await server.memoryHistory(of, 1, null).catch(() => null);
    return history?.changes[0]?.group ?? null;
  }
}

/** Undo a change or a group. */
export function useUndo() {
  const { of } = useShown();
  const server = useServer();
  const strings = useMemoryStrings();
  return useChange((which: { change_id: string } | { group: string }) => server.undoMemory(of, which), {
    text: strings.undoneNotice,
    undoable: false,
  });
}

/** Return the title of a thread. */
export function useThreadTitle(threadId: string | null): string | null {
  return useThread(threadId)?.title ?? null;
}
