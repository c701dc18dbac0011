/** Offers the files of the thread while one is being mentioned. */

import { type KeyboardEvent, useEffect, useState } from "react";
import { useFiles, usePage } from "@/app/context";
import { completed, type Mention, matching, mentionAt } from "@/features/chat/fileCompletion";

interface FileCompletion {
  readonly paths: readonly string[];
  readonly current: number;
  /** Looks at what was just written. */
  readonly look: (text: string, caret: number) => void;
  /** Whether a key was for the list. */
  readonly takesKey: (event: KeyboardEvent<HTMLTextAreaElement>) => boolean;
  readonly choose: (path: string) => void;
}

export function useFileCompletion(
  text: string,
  write: (text: string, caret: number) => void,
): FileCompletion {
  const files = useFiles();
  const threadId = usePage((page) => page.threadId);
  const artifacts = usePage(({ conversation }) => conversation.artifacts);
  const [mention, setMention] = useState<(Mention & { readonly caret: number }) | null>(null);
  const [uploads, setUploads] = useState<readonly string[]>([]);
  const [current, setCurrent] = useState(0);
  const mentions = mention !== null;

  useEffect(() => {
    if (!mentions || threadId === null) return;
    // Without the list of uploads, what the agent has presented can still be mentioned.
    files.uploads(threadId).then(
      (found) => setUploads(found.map(({ path }) => path)),
      () => undefined,
    );
  }, [files, threadId, mentions]);

  const paths = mention === null ? [] : matching([...uploads, ...artifacts], mention.query);
  const choose = (path: string) => {
    if (mention !== null) write(...completed(text, mention.caret, mention, path));
    setMention(null);
  };

  return {
    paths,
    current: Math.min(current, Math.max(paths.length - 1, 0)),
    choose,

    look(written, caret) {
      const found = mentionAt(written, caret);
      setMention(found === null ? null : { ...found, caret });
      setCurrent(0);
    },

    takesKey(event) {
      if (paths.length === 0) return false;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const at = Math.min(current, paths.length - 1);
      if (step !== undefined) setCurrent((at + step + paths.length) % paths.length);
      else if (event.key === "Enter" || event.key === "Tab") choose(paths[at] ?? "");
      else if (event.key === "Escape") setMention(null);
      else return false;
      event.preventDefault();
      return true;
    },
  };
}
