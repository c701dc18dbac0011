/** Menu of a thread. */

import {
  Archive,
  ArchiveRestore,
  Braces,
  Ellipsis,
  FileText,
  FolderInput,
  Pencil,
  Pin,
  PinOff,
  Share2,
  Trash2,
} from "lucide-react";
import { lazy, type ReactNode, Suspense, useRef, useState } from "react";
import { type ExportFormat, exportThread } from "@/features/threads/exportThread";
import { useStrings } from "@/i18n/context";
import { useActions } from "@/state/context";
import { useServer } from "@/state/server";
import type { Thread } from "@/state/threadList";
import { saveFile } from "@/ui/dom/saveFile";
import { Menu, MenuItem, MenuLine } from "@/ui/Menu";

const MoveDialog = lazy(() => import("@/features/threads/MoveDialog"));
const ShareDialog = lazy(() => import("@/features/threads/ShareDialog"));

interface Props {
  readonly thread: Thread;
  readonly title: string;
  readonly onRename: () => void;
  /** Opens the menu; by default a button that appears when the row is hovered. */
  readonly trigger?: (props: { readonly onPointerDown: () => void }) => ReactNode;
  readonly align?: "start" | "end";
  /** More items before the line above deletion. */
  readonly children?: ReactNode;
}

export function ThreadMenu({ thread, title, onRename, trigger, align = "end", children }: Props) {
  const strings = useStrings();
  const actions = useActions();
  const server = useServer();
  const renames = useRef(false);
  const [sharing, setSharing] = useState(false);
  const [moving, setMoving] = useState(false);
  const { pinned, archived } = thread;
  const resetRenaming = () => {
    renames.current = false;
  };
  const save = async (format: ExportFormat) => {
    try {
      saveFile(exportThread(title, await server.allMessages(thread.id), format));
    } catch {
      actions.reportExportFailure(thread);
    }
  };
  return (
    <>
      <Menu
        align={align}
        movesFocus={() => renames.current}
        trigger={
          trigger?.({ onPointerDown: resetRenaming }) ?? (
            <button
              type="button"
              aria-label={strings.threadMenu(title)}
              title={strings.threadMenu(title)}
              onPointerDown={resetRenaming}
              className="absolute inset-y-0 right-0.5 my-auto inline-flex size-8 items-center justify-center rounded-box text-faint opacity-0 group-hover:opacity-100 hover:bg-tint hover:text-ink focus-visible:opacity-100 data-[state=open]:opacity-100 [@media(hover:none)]:opacity-100"
            >
              <Ellipsis aria-hidden className="size-4" />
            </button>
          )
        }
      >
        <MenuItem
          icon={Pencil}
          label={strings.rename}
          onChoose={() => {
            renames.current = true;
            onRename();
          }}
        />
        <MenuItem
          icon={pinned ? PinOff : Pin}
          label={pinned ? strings.unpin : strings.pin}
          onChoose={() => void actions.pin(thread, !pinned)}
        />
        <MenuItem
          icon={archived ? ArchiveRestore : Archive}
          label={archived ? strings.unarchive : strings.archive}
          onChoose={() => void actions.archive(thread, !archived)}
        />
        <MenuItem icon={FolderInput} label={strings.moveToProject} onChoose={() => setMoving(true)} />
        <MenuItem icon={Share2} label={strings.share} onChoose={() => setSharing(true)} />
        <MenuLine />
        <MenuItem icon={FileText} label={strings.exportMarkdown} onChoose={() => void save("md")} />
        <MenuItem icon={Braces} label={strings.exportJson} onChoose={() => void save("json")} />
        {children}
        <MenuLine />
        <MenuItem icon={Trash2} label={strings.deleteItem} onChoose={() => actions.remove(thread)} />
      </Menu>
      {moving && (
        <Suspense>
          <MoveDialog thread={thread} title={title} onClose={() => setMoving(false)} />
        </Suspense>
      )}
      {sharing && (
        <Suspense>
          <ShareDialog threadId={thread.id} title={title} onClose={() => setSharing(false)} />
        </Suspense>
      )}
    </>
  );
}
