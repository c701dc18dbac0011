/** Uploads files when they are attached; in a new thread, when its first message is sent. */

import { useEffect, useReducer, useRef, useState } from "react";
import type { UploadLimits } from "@/api/files";
import { ApiError } from "@/api/http";
import {
  type Attachment,
  type Attachments,
  faultOf,
  isHeld,
  reduceAttachments,
} from "@/features/chat/composer/attachments";
import { isPicture } from "@/files/kinds";
import { useActions, useFiles, usePage } from "@/state/context";
import { useFeature } from "@/state/server";
import { newId } from "@/ui/dom/newId";

/** Attachments of the open thread; those of other threads are kept until one returns. */
export interface UseAttachments {
  readonly all: Attachments;
  readonly limits: UploadLimits | null;
  /** True while a message waits for its files. */
  readonly waits: boolean;
  readonly setWaits: (waits: boolean) => void;
  readonly add: (files: Iterable<File>) => void;
  /** Create the thread and upload what was kept for it. */
  readonly begin: () => void;
  readonly remove: (attachment: Attachment) => void;
  readonly sent: () => void;
}

export function useAttachments(): UseAttachments {
  const files = useFiles();
  const actions = useActions();
  const threadId = usePage((page) => page.threadId);
  const [everywhere, dispatch] = useReducer(reduceAttachments, []);
  const [waits, setWaits] = useState(false);
  const under = useRef(new Map<string, AbortController>());
  const held = useRef(new Map<string, File>());
  const limits = useUploadLimits();
  useEffect(() => {
    if (limits !== null) dispatch({ type: "limited", limits });
  }, [limits]);
  const all = everywhere.filter((each) => each.threadId === threadId);
  const latest = useRef(everywhere);
  latest.current = everywhere;

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
    limits,
    waits,
    setWaits,

    add(given) {
      let known: Attachments = latest.current.filter((each) => each.threadId === threadId);
      for (const file of given) {
        const { name, size } = file;
        const id = newId();
        const fault = faultOf(size, known, limits);
        const added = { type: "added", id, threadId, name, size, image: imageOf(file), fault } as const;
        known = reduceAttachments(known, added);
        dispatch(added);
        if (fault !== null) continue;
        if (threadId === null) held.current.set(id, file);
        else void send(threadId, id, file);
      }
    },

    begin() {
      const kept = all.filter(isHeld);
      const thread = actions.ensureThread();
      dispatch({ type: "begun", threadId: thread });
      for (const { id } of kept) {
        const file = held.current.get(id);
        held.current.delete(id);
        if (file !== undefined) void send(thread, id, file);
      }
    },

    remove({ id, image, state }) {
      under.current.get(id)?.abort();
      held.current.delete(id);
      if (image !== null) URL.revokeObjectURL(image);
      dispatch({ type: "removed", id });
      if (state.phase === "uploaded" && threadId !== null)
        void files.deleteUpload(threadId, state.file.filename).catch(() => undefined);
    },

    sent() {
      for (const { image, state } of all)
        if (image !== null && state.phase === "uploaded") URL.revokeObjectURL(image);
      dispatch({ type: "sent", threadId });
    },
  };
}

function imageOf(file: File): string | null {
  return isPicture(file.name) ? URL.createObjectURL(file) : null;
}

/** Without limits the server validates the upload. */
function useUploadLimits(): UploadLimits | null {
  const files = useFiles();
  const offered = useFeature("uploads");
  const [limits, setLimits] = useState<UploadLimits | null>(null);
  useEffect(() => {
    if (!offered) return;
    files.uploadLimits().then(setLimits, () => undefined);
  }, [files, offered]);
  return limits;
}
