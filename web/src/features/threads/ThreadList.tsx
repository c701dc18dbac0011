/** The user's threads, newest first. */

import { SquarePen, Trash2 } from "lucide-react";
import type { MouseEvent } from "react";
import { useActions, useLanguage, usePage, useWords } from "@/app/context";
import type { Thread } from "@/app/page";
import { SettingsMenu } from "@/features/settings/SettingsMenu";
import { groupByDay } from "@/features/threads/days";
import { Button } from "@/ui/Button";
import { IconButton } from "@/ui/IconButton";

export function ThreadList() {
  const words = useWords();
  const actions = useActions();
  return (
    <nav aria-label={words.threads} className="flex h-full flex-col">
      <div className="flex h-12 shrink-0 items-center gap-2 px-5 font-semibold tracking-tight">
        <img src="/icon.svg" alt="" className="size-5" />
        DeerFlow
      </div>
      <div className="px-3 pb-3">
        <a
          href="/"
          onClick={(event) => followInPage(event, () => actions.open(null))}
          className="flex h-9 items-center gap-2 rounded-box border border-line bg-raised px-3 font-medium hover:border-line-strong"
        >
          <SquarePen aria-hidden className="size-4 text-accent" />
          {words.newThread}
        </a>
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto px-3 pb-3">
        <Threads />
      </div>
      <div className="border-t border-line px-3 py-2">
        <SettingsMenu />
      </div>
    </nav>
  );
}

function Threads() {
  const words = useWords();
  const actions = useActions();
  const threads = usePage((page) => page.threads);
  if (threads.phase === "loading") return <Skeleton />;
  if (threads.phase === "failed") {
    return (
      <div className="flex flex-col items-start gap-3 p-2 text-soft">
        <p>{words.threadsUnavailable}</p>
        <Button onClick={() => void actions.refreshThreads()}>{words.tryAgain}</Button>
      </div>
    );
  }
  if (threads.value.length === 0) return <p className="p-2 text-small text-faint">{words.noThreads}</p>;
  return groupByDay(threads.value, new Date()).map(({ day, threads: ofDay }) => (
    <section key={day} className="mb-4">
      <h2 className="px-2 py-1 text-small text-faint">{words[day]}</h2>
      <ul>
        {ofDay.map((thread) => (
          <ThreadLink key={thread.id} thread={thread} />
        ))}
      </ul>
    </section>
  ));
}

function ThreadLink({ thread }: { thread: Thread }) {
  const words = useWords();
  const language = useLanguage();
  const actions = useActions();
  const current = usePage((page) => page.threadId === thread.id);
  const title = thread.title ?? words.untitled;
  const exactTime = new Date(thread.updatedAt).toLocaleString(language);
  return (
    <li className="group relative">
      <a
        href={`/threads/${thread.id}`}
        title={`${title}\n${exactTime}`}
        aria-current={current ? "page" : undefined}
        onClick={(event) => followInPage(event, () => actions.open(thread.id))}
        className="flex h-9 items-center gap-2 rounded-box px-2 text-soft group-focus-within:pr-9 group-hover:pr-9 [@media(hover:none)]:pr-9 hover:bg-tint hover:text-ink aria-[current]:bg-tint-strong aria-[current]:text-ink"
      >
        <span className="truncate">{title}</span>
        {thread.status === "busy" && (
          <span
            role="img"
            aria-label={words.answering}
            className="size-2 shrink-0 animate-breathe rounded-full bg-running"
          />
        )}
      </a>
      <IconButton
        icon={Trash2}
        label={words.deleteThread(title)}
        onClick={() => actions.remove(thread)}
        className="absolute top-0.5 right-0.5 opacity-0 group-hover:opacity-100 focus-visible:opacity-100 [@media(hover:none)]:opacity-100"
      />
    </li>
  );
}

function Skeleton() {
  return (
    <div aria-hidden className="flex animate-late flex-col gap-2 p-2">
      {["w-4/5", "w-3/5", "w-2/3", "w-1/2"].map((width) => (
        <div key={width} className={`h-5 animate-breathe rounded-box bg-tint-strong ${width}`} />
      ))}
    </div>
  );
}

/** Follows a link without leaving the page, unless the reader asks for a tab or window. */
function followInPage(event: MouseEvent, go: () => Promise<void>): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  void go();
}
