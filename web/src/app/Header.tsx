/** Title of the thread, and the way to the list. */

import { usePage, useWords } from "@/app/context";
import { ListToggle } from "@/app/ListToggle";
import { currentModel, modelName, type Page } from "@/app/page";

export function Header() {
  const words = useWords();
  const title = usePage(threadTitle);
  const isNew = usePage((page) => page.threadId === null);
  const model = usePage(currentModel);
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-3">
      <ListToggle />
      <h1 className="min-w-0 truncate font-medium">{title ?? (isNew ? words.newThread : "")}</h1>
      {model !== null && (
        <span className="ml-auto shrink-0 pl-2 text-small text-faint">{modelName(model)}</span>
      )}
    </header>
  );
}

export function threadTitle({ threadId, conversation, threads }: Page): string | null {
  const listed = threads.phase === "ready" ? threads.value.find(({ id }) => id === threadId) : undefined;
  return listed?.renamed ? listed.title : (conversation.title ?? listed?.title ?? null);
}
