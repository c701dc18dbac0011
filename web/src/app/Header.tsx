/** Title of the thread, and the way to the list. */

import { PanelLeft } from "lucide-react";
import { usePage, useWords } from "@/app/context";
import { currentModel, modelName, type Page } from "@/app/page";
import { useToggleList } from "@/app/useShortcuts";
import { IconButton } from "@/ui/IconButton";
import { useIsNarrow } from "@/ui/useIsNarrow";

export function Header() {
  const words = useWords();
  const toggleList = useToggleList();
  const narrow = useIsNarrow();
  const listOpen = usePage((page) => (narrow ? page.drawerOpen : page.preferences.listOpen));
  const title = usePage(threadTitle);
  const isNew = usePage((page) => page.threadId === null);
  const model = usePage(currentModel);
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-3">
      <IconButton
        icon={PanelLeft}
        label={listOpen ? words.hideThreads : words.showThreads}
        aria-expanded={listOpen}
        onClick={toggleList}
      />
      <h1 className="min-w-0 truncate font-medium">{title ?? (isNew ? words.newThread : "")}</h1>
      {model !== null && (
        <span className="ml-auto shrink-0 pl-2 text-small text-faint">{modelName(model)}</span>
      )}
    </header>
  );
}

function threadTitle({ threadId, conversation, threads }: Page): string | null {
  if (conversation.title !== null || threadId === null || threads.phase !== "ready")
    return conversation.title;
  return threads.value.find(({ id }) => id === threadId)?.title ?? null;
}
