/** Toast of a thread change, with undo. */

import { useEffect } from "react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import type { Notice as PageNotice, ThreadChange } from "@/state/page";
import { usePanel } from "@/state/usePanel";

const UNDO_FOR_MS = 6000;

export function ThreadNotice() {
  const deleted = usePage((page) => page.deleted);
  const notice = usePage((page) => page.notice);
  if (notice !== null) return <PlainNotice key={notice.kind} notice={notice} />;
  return deleted === null ? <ChangeNotice /> : <DeletionNotice key={deleted.id} />;
}

function PlainNotice({ notice: { kind, detail } }: { notice: PageNotice }) {
  const { workspace } = useStrings();
  const actions = useActions();
  useEffect(() => {
    if (kind === "compacting") return; // replaced by its result
    const timer = setTimeout(() => actions.notice(null), UNDO_FOR_MS);
    return () => clearTimeout(timer);
  }, [kind, actions]);
  const text = detail === undefined ? workspace.notices[kind] : `${workspace.notices[kind]} ${detail}`;
  return <Notice text={text} onUndo={undefined} />;
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
  const { tab, isSheet } = usePanel();
  const width = usePage((page) => page.preferences.panelWidth);
  return (
    <div
      role="status"
      // Centred in the column of the conversation, which ends where the panel begins.
      style={{ right: tab !== null && !isSheet ? `${width}%` : 0 }}
      className="pointer-events-none absolute bottom-32 left-0 z-40 flex animate-appear justify-center px-4"
    >
      <div className="pointer-events-auto flex h-11 items-center gap-4 rounded-box bg-ink pr-2 pl-4 text-paper shadow-float">
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
    </div>
  );
}
