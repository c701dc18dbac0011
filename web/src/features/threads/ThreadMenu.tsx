/** Menu of a thread. */

import {
  Archive,
  ArchiveRestore,
  Braces,
  Ellipsis,
  FileText,
  Pencil,
  Pin,
  PinOff,
  Share2,
  Trash2,
} from "lucide-react";
import { lazy, Suspense, useRef, useState } from "react";
import { type ExportFormat, exportThread } from "@/features/threads/exportThread";
import { useStrings } from "@/i18n/context";
import { useActions } from "@/state/context";
import { useFeature, useServer } from "@/state/server";
import type { Thread } from "@/state/threadList";
import { saveFile } from "@/ui/dom/saveFile";
import { Menu, MenuItem, MenuLine } from "@/ui/Menu";

const ShareDialog = lazy(() => import("@/features/threads/ShareDialog"));

interface Props {
  readonly thread: Thread;
  readonly title: string;
  readonly onRename: () => void;
}

export function ThreadMenu({ thread, title, onRename }: Props) {
  const strings = useStrings();
  const actions = useActions();
  const server = useServer();
  const renames = useRef(false);
  const [sharing, setSharing] = useState(false);
  const canShare = useFeature("sharing");
  const { pinned, archived } = thread;
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
        align="end"
        keepsFocus={() => renames.current}
        trigger={
          <button
            type="button"
            aria-label={strings.threadMenu(title)}
            title={strings.threadMenu(title)}
            onPointerDown={() => {
              renames.current = false;
            }}
            className="absolute top-0.5 right-0.5 inline-flex size-8 items-center justify-center rounded-box text-faint opacity-0 group-hover:opacity-100 hover:bg-tint hover:text-ink focus-visible:opacity-100 data-[state=open]:opacity-100 [@media(hover:none)]:opacity-100"
          >
            <Ellipsis aria-hidden className="size-4" />
          </button>
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
        {canShare && <MenuItem icon={Share2} label={strings.share} onChoose={() => setSharing(true)} />}
        <MenuLine />
        <MenuItem icon={FileText} label={strings.exportMarkdown} onChoose={() => void save("md")} />
        <MenuItem icon={Braces} label={strings.exportJson} onChoose={() => void save("json")} />
        <MenuLine />
        <MenuItem icon={Trash2} label={strings.deleteItem} onChoose={() => actions.remove(thread)} />
      </Menu>
      {sharing && (
        <Suspense>
          <ShareDialog threadId={thread.id} title={title} onClose={() => setSharing(false)} />
        </Suspense>
      )}
    </>
  );
}
