/** A deleted thread can be had back for a while. */

import { useEffect } from "react";
import { useActions, usePage, useWords } from "@/app/context";

const UNDO_FOR_MS = 6000;

export function DeletedNotice() {
  const words = useWords();
  const actions = useActions();
  const deleted = usePage((page) => page.deleted);

  useEffect(() => {
    if (deleted === null) return;
    const finish = () => void actions.finishRemove();
    const timer = setTimeout(finish, UNDO_FOR_MS);
    window.addEventListener("pagehide", finish);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("pagehide", finish);
    };
  }, [deleted, actions]);

  if (deleted === null) return null;
  return (
    <div
      role="status"
      className="fixed bottom-16 left-4 z-40 flex h-11 animate-appear items-center gap-4 rounded-box bg-ink pr-2 pl-4 text-paper shadow-float"
    >
      {words.threadDeleted}
      <button
        type="button"
        onClick={actions.undoRemove}
        className="h-8 rounded-box px-2 font-medium underline underline-offset-4 focus-visible:outline-paper"
      >
        {words.undo}
      </button>
    </div>
  );
}
