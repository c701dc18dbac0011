/** List of presented files. */

import { Download, FolderArchive } from "lucide-react";
import { artifactUrl, bundleUrl, fileName } from "@/api/artifacts";
import { EmptyPanel } from "@/features/panel/EmptyPanel";
import { FileView } from "@/features/panel/FileView";
import { FileIcon } from "@/files/FileIcon";
import { useStrings } from "@/i18n/context";
import { usePage } from "@/state/context";
import { useFeature } from "@/state/server";
import { useOpenPanel, usePanel } from "@/state/usePanel";

export function Artifacts({ threadId }: { threadId: string }) {
  const strings = useStrings();
  const { file } = usePanel();
  const open = useOpenPanel();
  const artifacts = usePage(({ conversation }) => conversation.artifacts);
  const bundles = useFeature("artifact_bundles");
  if (file !== null) {
    return (
      <FileView
        threadId={threadId}
        path={file}
        siblings={artifacts}
        onOpen={(path) => open("artifacts", path)}
        onBack={() => open("artifacts")}
      />
    );
  }
  if (artifacts.length === 0) return <EmptyPanel text={strings.noArtifacts} />;
  return (
    <div className="min-h-0 flex-1 overflow-y-auto p-3">
      <ul aria-label={strings.panelTabs.artifacts}>
        {artifacts.map((path) => {
          return (
            <li key={path} className="flex items-center">
              <button
                type="button"
                title={path}
                onClick={() => open("artifacts", path)}
                className="flex h-10 min-w-0 flex-1 items-center gap-3 rounded-box px-2 text-left hover:bg-tint"
              >
                <FileIcon path={path} />
                <span className="truncate">{fileName(path)}</span>
              </button>
              <a
                href={artifactUrl(threadId, path, { download: true })}
                download={fileName(path)}
                aria-label={strings.download(fileName(path))}
                title={strings.download(fileName(path))}
                className="inline-flex size-8 shrink-0 items-center justify-center rounded-box text-faint hover:bg-tint hover:text-ink"
              >
                <Download aria-hidden className="size-4" />
              </a>
            </li>
          );
        })}
      </ul>
      {bundles && (
        <a
          href={bundleUrl(threadId)}
          download
          className="mt-3 inline-flex h-8 items-center gap-2 rounded-box border border-line-strong bg-raised px-3 font-medium hover:bg-tint"
        >
          <FolderArchive aria-hidden className="size-4 text-faint" />
          {strings.downloadAll}
        </a>
      )}
    </div>
  );
}
