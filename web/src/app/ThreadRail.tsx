/** The thread list's place: beside the conversation, or a drawer over it. */

import { useEffect, useRef } from "react";
import { useActions, usePage, useWords } from "@/app/context";
import { ThreadList } from "@/features/threads/ThreadList";
import { useIsNarrow } from "@/ui/useIsNarrow";

export function ThreadRail() {
  const narrow = useIsNarrow();
  const listOpen = usePage((page) => page.preferences.listOpen);
  if (narrow) return <Drawer />;
  if (!listOpen) return null;
  return (
    <aside className="w-[260px] shrink-0 border-r border-line bg-rail">
      <ThreadList />
    </aside>
  );
}

function Drawer() {
  const words = useWords();
  const actions = useActions();
  const open = usePage((page) => page.drawerOpen);
  const dialog = useRef<HTMLDialogElement>(null);

  // A native modal keeps focus inside, hides the rest from screen readers and gives focus back by itself.
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);

  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already
    <dialog
      ref={dialog}
      aria-label={words.threads}
      onClose={() => actions.drawer(false)}
      onClick={(event) => event.target === dialog.current && actions.drawer(false)}
      className="fixed inset-y-0 left-0 m-0 h-dvh max-h-none w-[min(300px,85vw)] max-w-none border-r border-line bg-rail text-ink open:animate-appear backdrop:bg-scrim"
    >
      {open && <ThreadList />}
    </dialog>
  );
}
