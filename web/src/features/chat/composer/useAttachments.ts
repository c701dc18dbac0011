/** Uploads files when they are attached. */

import { useEffect, useReducer, useRef } from "react";
import type { UploadLimits } from "@/api/files";
import { ApiError } from "@/api/http";
import {
  type Attachment,
  type Attachments,
  faultOf,
  reduceAttachments,
} from "@/features/chat/composer/attachments";
import { isCreated } from "@/run/conversation";
import { useActions, useFiles, usePage } from "@/state/context";
import { useFeature } from "@/state/server";
import { newId } from "@/ui/dom/newId";

/** Kept across threads: an attachment may create one. */
export interface UseAttachments {
  readonly all: Attachments;
  readonly add: (files: Iterable<File>) => void;
  readonly remove: (attachment: Attachment) => void;
  readonly sent: () => void;
}

export function useAttachments(): UseAttachments {
  const files = useFiles();
  const offered = useFeature("uploads");
  const actions = useActions();
  const threadId = usePage((page) => page.threadId);
  const [all, dispatch] = useReducer(reduceAttachments, []);
  const under = useRef(new Map<string, AbortController>());
  const limits = useRef<UploadLimits | null>(null);
  const home = useRef(threadId);
  const latest = useRef(all);
  latest.current = all;

  // The thread exists after its first file or run.
  const created = usePage(({ conversation }) => isCreated(conversation));
  const known = created || all.some(({ state }) => state.phase === "uploaded");

  useEffect(() => {
    if (home.current !== threadId) dispatch({ type: "cleared" });
    home.current = threadId;
  }, [threadId]);

  useEffect(() => {
    limits.current = null;
    if (!offered || threadId === null || !known) return;
    // Without limits the server validates the upload.
    files.uploadLimits(threadId).then(
      (received) => {
        limits.current = received;
      },
      () => undefined,
    );
  }, [files, threadId, known, offered]);

  async function send(thread: string, id: string, file: File): Promise<void> {
    const stop = new AbortController();
    under.current.set(id, stop);
    try {
      const onProgress = (part: number) => dispatch({ type: "sending", id, part });
      dispatch({ type: "uploaded", id, file: await files.upload(thread, file, onProgress, stop.signal) });
    } catch (error) {
      if (stop.signal.aborted) return;
      const refused = error instanceof ApiError;
      const fault = refused ? (error.status === 413 ? "too large" : "refused") : "unreachable";
      dispatch({ type: "failed", id, fault, reason: refused ? error.message : "" });
    } finally {
      under.current.delete(id);
    }
  }

  return {
    all,

    add(given) {
      const thread = actions.ensureThread();
      home.current = thread;
      let known = latest.current;
      for (const file of given) {
        const { name, size } = file;
        const added = {
          type: "added",
          id: newId(),
          name,
          size,
          fault: faultOf(size, known, limits.current),
        } as const;
        known = reduceAttachments(known, added);
        dispatch(added);
        if (added.fault === null) void send(thread, added.id, file);
      }
    },

    remove({ id, state }) {
      under.current.get(id)?.abort();
      dispatch({ type: "removed", id });
      if (state.phase === "uploaded" && threadId !== null)
        void files.deleteUpload(threadId, state.file.filename).catch(() => undefined);
    },

    sent: () => dispatch({ type: "sent" }),
  };
}
