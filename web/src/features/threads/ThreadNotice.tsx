/** Toast of a thread change, with undo. */

import { useEffect } from "react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import type { ThreadChange } from "@/state/page";

const UNDO_FOR_MS = 6000;

export function ThreadNotice() {
  const deleted = usePage((page) => page.deleted);
  return deleted === null ? <ChangeNotice /> : <DeletionNotice key={deleted.id} />;
}

function DeletionNotice() {
  const strings = useStrings();
  const actions = useActions();

  useEffect(() => {
    const finish = () => void actions.finishRemove();
    const timer = setTimeout(finish, UNDO_FOR_MS);
    window.addEventListener("pagehide", finish);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("pagehide", finish);
    };
  }, [actions]);

  return <Notice text={strings.threadDeleted} onUndo={actions.undoRemove} />;
}

function ChangeNotice() {
  const strings = useStrings();
  const actions = useActions();
  const changed = usePage((page) => page.changed);

  useEffect(() => {
    if (changed === null) return;
    const timer = setTimeout(actions.dismissChange, UNDO_FOR_MS);
    return () => clearTimeout(timer);
  }, [changed, actions]);

  if (changed === null) return null;
  const undo = isFailure(changed.kind) ? undefined : () => void actions.undoChange();
  return <Notice text={strings.threadChanges[changed.kind]} onUndo={undo} />;
}

function isFailure(kind: ThreadChange["kind"]): boolean {
  return kind === "refused" || kind === "unexported";
}

function Notice({ text, onUndo }: { text: string; onUndo: (() => void) | undefined }) {
  const strings = useStrings();
  return (
    <div
      role="status"
      className="fixed bottom-24 left-4 z-40 flex h-11 animate-appear items-center gap-4 rounded-box bg-ink pr-2 pl-4 text-paper shadow-float"
    >
      {text}
      {onUndo && (
        <button
          type="button"
          onClick={onUndo}
          className="h-8 rounded-box px-2 font-medium underline underline-offset-4 focus-visible:outline-paper"
        >
          {strings.undo}
        </button>
      )}
    </div>
  );
}
