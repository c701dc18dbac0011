/** Row of the thread list. */

import { Link } from "@tanstack/react-router";
import { GitBranch, Hand, MessageCircleQuestionMark, Pin } from "lucide-react";
import { type KeyboardEvent, useState } from "react";
import { ThreadMenu } from "@/features/threads/ThreadMenu";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { useActions, usePage } from "@/state/context";
import { type Thread, useThread } from "@/state/threadList";

export function ThreadRow({ thread }: { thread: Thread }) {
  const strings = useStrings();
  const language = useLanguage();
  const [renaming, setRenaming] = useState(false);
  const title = thread.title ?? strings.untitled;
  const unread = usePage((page) => page.preferences.watched[thread.id] === "unread");
  const exactTime = formatMoment(thread.updatedAt, language);
  const origin = useThread(thread.branchedFrom);
  const branched = origin && strings.workspace.branchedFrom(origin.title ?? strings.untitled);
  if (renaming) return <RenameField thread={thread} onDone={() => setRenaming(false)} />;
  return (
    <>
      <Link
        to="/threads/$threadId"
        params={{ threadId: thread.id }}
        title={[title, branched, exactTime].filter(Boolean).join("\n")}
        activeOptions={{ includeSearch: false }}
        onDoubleClick={() => setRenaming(true)}
        className="flex h-full min-h-8 items-center gap-2 rounded-box px-2 text-soft group-focus-within:pr-9 group-hover:pr-9 [@media(hover:none)]:pr-9 hover:bg-tint hover:text-ink aria-[current]:bg-tint-strong aria-[current]:text-ink"
      >
        {thread.branchedFrom !== null && (
          <GitBranch
            aria-label={branched ?? strings.workspace.branch}
            role="img"
            className="size-3.5 shrink-0 text-faint"
          />
        )}
        <span className={`truncate ${unread ? "font-semibold text-ink" : ""}`}>{title}</span>
        {unread && (
          <span
            role="img"
            aria-label={strings.workspace.unread}
            title={strings.workspace.unread}
            className="size-2 shrink-0 rounded-full bg-accent"
          />
        )}
        <Mark thread={thread} />
      </Link>
      <ThreadMenu thread={thread} title={title} onRename={() => setRenaming(true)} />
    </>
  );
}

/** Status icon of a thread. */
function Mark({ thread }: { thread: Thread }) {
  const strings = useStrings();
  if (thread.status === "busy") {
    return (
      <span
        role="img"
        aria-label={strings.answering}
        className="size-2 shrink-0 animate-breathe rounded-full bg-running"
      />
    );
  }
  if (thread.waitsFor !== null) {
    const Icon = thread.waitsFor === "answer" ? MessageCircleQuestionMark : Hand;
    const label = strings.waitsFor[thread.waitsFor];
    return (
      <span role="img" aria-label={label} title={label} className="ml-auto shrink-0 text-warning">
        <Icon aria-hidden className="size-4" />
      </span>
    );
  }
  return thread.pinned ? <Pin aria-hidden className="ml-auto size-3.5 shrink-0 text-faint" /> : null;
}

export function RenameField({ thread, onDone }: { thread: Thread; onDone: () => void }) {
  const strings = useStrings();
  const actions = useActions();
  const [title, setTitle] = useState(thread.title ?? "");
  const finish = () => {
    onDone();
    void actions.rename(thread, title);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing || !(event.key === "Enter" || event.key === "Escape")) return;
    event.preventDefault();
    if (event.key === "Enter") finish();
    else onDone();
  };
  return (
    <input
      ref={selectAll}
      value={title}
      onChange={(event) => setTitle(event.target.value)}
      onKeyDown={onKeyDown}
      onBlur={finish}
      maxLength={200}
      aria-label={strings.threadTitle}
      className="h-full min-h-8 w-full rounded-box border border-accent bg-raised px-2 outline-none"
    />
  );
}

function selectAll(field: HTMLInputElement | null): void {
  field?.focus();
  field?.select();
}
