/** Actions of the workspace: summaries, temporary chats and notices. */

import { isActive } from "@/run/reduce";
import type { Dependencies } from "@/state/actions/dependencies";
import type { ModelChoice } from "@/state/actions/preferenceActions";
import type { RunReader } from "@/state/actions/runReader";
import { settingsFor } from "@/state/modes";
import { currentMode, type Notice } from "@/state/page";

export interface WorkspaceActions {
  /** Replace earlier messages in the context of the agent by a summary. */
  compact(): Promise<void>;
  /** Summarize earlier messages, then continue the failed turn. */
  summarizeAndRetry(): Promise<void>;
  /** Make the next new thread temporary. */
  startTemporary(on: boolean): void;
  notice(notice: Notice | null): void;
}

export function workspaceActions(
  { gateway, store, queries, now }: Dependencies,
  models: ModelChoice,
  reader: RunReader,
  reload: () => Promise<void>,
): WorkspaceActions {
  const { get, dispatch } = store;
  const notice = (given: Notice | null) => dispatch({ type: "noticed", notice: given });

  /** Summarize the open thread; returns its id if that was done and the thread is idle. */
  async function summarize(): Promise<string | null> {
    const { threadId, conversation } = get();
    const refuse = (kind: Notice["kind"]) => {
      notice({ kind });
      return null;
    };
    if (threadId === null) return refuse("nothingToCompact");
    if (isActive(conversation.run)) return refuse("notCompacted");
    notice({ kind: "compacting" });
    try {
      const status = await gateway.compact(threadId, models.current()?.name ?? null);
      if (status === "model_failed") return refuse("notCompacted");
      if (status === "nothing_to_summarize") return refuse("nothingToCompact");
    } catch {
      return refuse("notCompacted");
    }
    notice({ kind: "compacted" });
    void queries.invalidateQueries({ queryKey: ["thread", threadId] });
    const isIdle = () => get().threadId === threadId && !isActive(get().conversation.run);
    if (isIdle()) await reload();
    return isIdle() ? threadId : null;
  }

  return {
    notice,
    startTemporary: (on) => dispatch({ type: "temporaryChosen", on }),

    async compact() {
      await summarize();
    },

    async summarizeAndRetry() {
      const { planMode, subagents } = get().conversation.run;
      const threadId = await summarize();
      if (threadId === null) return;
      // From the latest checkpoint: an earlier one would be without the summary.
      const run = {
        checkpoint: null,
        ...settingsFor(currentMode(get()), models.current()),
        planMode,
        subagents,
      };
      dispatch({ type: "run", event: { type: "decided", model: run.model, at: now() } });
      await reader.read(threadId, {
        connect: (until) => gateway.repeatRun(threadId, run, until),
        rejoin: (runId, after, until) => gateway.joinRun(threadId, runId, after, until),
      });
    },
  };
}

/** Delete the temporary thread of this tab unless it stays open; the server deletes it later if that fails. */
export function leaveTemporary({ gateway, store, temporary }: Dependencies, next: string | null): void {
  const { temporaryId } = store.get();
  if (temporaryId === null || temporaryId === next) return;
  temporary.set(null);
  store.dispatch({ type: "temporaryEnded" });
  void gateway.endTemporary(temporaryId).catch(() => undefined);
}
