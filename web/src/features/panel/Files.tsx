/** File tree of the thread. */

import { useQuery } from "@tanstack/react-query";
import { ChevronRight, Folder } from "lucide-react";
import { useState } from "react";
import type { FolderEntry } from "@/api/threadFiles";
import { FileView } from "@/features/panel/FileView";
import { FileIcon } from "@/files/FileIcon";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatMoment, formatSize } from "@/i18n/format";
import { useServer } from "@/state/server";
import { useOpenPanel, usePanel } from "@/state/usePanel";
import { ErrorState, LoadingState } from "@/ui/states";

const ROOT = "/mnt/user-data";

export function Files({ threadId }: { threadId: string }) {
  const { file } = usePanel();
  const open = useOpenPanel();
  const siblings = useSiblings(threadId, file);
  if (file !== null) {
    return (
      <FileView
        threadId={threadId}
        path={file}
        siblings={siblings}
        onOpen={(path) => open("files", path)}
        onBack={() => open("files")}
      />
    );
  }
  return (
    <div className="min-h-0 flex-1 overflow-y-auto p-3">
      <FolderContent threadId={threadId} path={ROOT} isRoot />
    </div>
  );
}

/** Return the files in the folder of a file. */
function useSiblings(threadId: string, file: string | null): readonly string[] {
  const server = useServer();
  const folder = file?.slice(0, file.lastIndexOf("/")) ?? "";
  const listed = useQuery({
    queryKey: ["thread", threadId, "folder", folder],
    queryFn: () => server.folder(threadId, folder),
    enabled: folder !== "",
    retry: false,
    // The list from which the file was opened is new enough.
    staleTime: 30_000,
  });
  return listed.data?.entries.filter(({ kind }) => kind === "file").map(({ path }) => path) ?? [];
}

function FolderContent({
  threadId,
  path,
  isRoot = false,
}: {
  threadId: string;
  path: string;
  isRoot?: boolean;
}) {
  const strings = useStrings();
  const server = useServer();
  const folder = useQuery({
    queryKey: ["thread", threadId, "folder", path],
    queryFn: () => server.folder(threadId, path),
  });
  if (folder.isPending) return <LoadingState />;
  if (folder.isError)
    return <ErrorState text={strings.folderMissing} onRetry={() => void folder.refetch()} />;
  const { entries, is_truncated: isTruncated } = folder.data;
  if (entries.length === 0) return <p className="px-2 py-1 text-small text-faint">{strings.folderEmpty}</p>;
  return (
    <ul aria-label={isRoot ? strings.panelTabs.files : undefined}>
      {entries.map((entry) => (
        <li key={entry.path}>
          {entry.kind === "folder" ? (
            <FolderRow threadId={threadId} entry={entry} opened={isRoot} />
          ) : (
            <FileRow entry={entry} />
          )}
        </li>
      ))}
      {isTruncated && (
        <li className="px-2 py-1 text-small text-faint">{strings.folderTruncated(entries.length)}</li>
      )}
    </ul>
  );
}

interface FolderRowProps {
  readonly threadId: string;
  readonly entry: FolderEntry;
  readonly opened: boolean;
}

function FolderRow({ threadId, entry, opened }: FolderRowProps) {
  const [open, setOpen] = useState(opened);
  return (
    <>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className={ROW}>
        <ChevronRight aria-hidden className={`size-4 shrink-0 text-faint ${open ? "rotate-90" : ""}`} />
        <Folder aria-hidden className="size-4 shrink-0 text-faint" />
        <span className="truncate">{entry.name}</span>
      </button>
      {open && (
        <div className="ml-4 border-l border-line pl-2">
          <FolderContent threadId={threadId} path={entry.path} />
        </div>
      )}
    </>
  );
}

function FileRow({ entry }: { entry: FolderEntry }) {
  const language = useLanguage();
  const open = useOpenPanel();

  return (
    <button
      type="button"
      title={formatMoment(entry.modified_at, language)}
      onClick={() => open("files", entry.path)}
      className={ROW}
    >
      <FileIcon path={entry.path} />
      <span className="min-w-0 flex-1 truncate">{entry.name}</span>
      <span className="shrink-0 text-small text-faint">{formatSize(entry.size, language)}</span>
    </button>
  );
}

const ROW = "flex h-8 w-full items-center gap-2 rounded-box px-2 text-left hover:bg-tint";
