/** Preview of a file by its kind. */

import { lazy } from "react";
import { fileName } from "@/api/artifacts";
import { DownloadButton } from "@/files/DownloadButton";
import type { Preview } from "@/files/previews";
import { useText } from "@/files/useText";
import { useStrings } from "@/i18n/context";
import { Markdown } from "@/markdown/Markdown";
import { useFeature } from "@/state/server";
import { useFileUrls } from "@/ui/FileUrls";
import { ErrorState, LoadingState } from "@/ui/states";

const MediaView = lazy(() => import("@/files/MediaView"));
const OfficeView = lazy(() => import("@/files/OfficeView"));
const PdfView = lazy(() => import("@/files/PdfView"));
const TableView = lazy(() => import("@/files/TableView"));

export function FilePreview({ kind, threadId, path }: { kind: Preview; threadId: string; path: string }) {
  const urls = useFileUrls();
  switch (kind) {
    case "picture":
      return (
        <div className="flex min-h-0 flex-1 items-center justify-center overflow-auto bg-rail p-4">
          <img
            src={urls.artifact(path)}
            alt={fileName(path)}
            className="max-h-full max-w-full object-contain"
          />
        </div>
      );
    case "page":
      // Sandboxed without an origin; scripts run but cannot reach anything.
      return (
        <iframe
          key={path}
          src={urls.preview(path)}
          title={fileName(path)}
          sandbox="allow-scripts"
          className="min-h-0 w-full flex-1 bg-sheet [color-scheme:light]"
        />
      );
    case "sound":
    case "film":
      return <MediaView key={path} kind={kind} path={path} />;
    case "office":
      return <OfficePreview key={path} threadId={threadId} path={path} />;
    case "pdf":
      return <PdfView threadId={threadId} path={path} />;
    default:
      return <TextPreview kind={kind} threadId={threadId} path={path} />;
  }
}

/** Previews are made by the server, for the owner of the thread. */
function OfficePreview({ threadId, path }: { threadId: string; path: string }) {
  const strings = useStrings();
  const offered = useFeature("file_previews") && threadId !== "";
  if (offered) return <OfficeView threadId={threadId} path={path} />;
  return (
    <ErrorState text={strings.noPreview}>
      <DownloadButton path={path} />
    </ErrorState>
  );
}

function TextPreview({
  kind,
  threadId,
  path,
}: {
  kind: "markdown" | "table";
  threadId: string;
  path: string;
}) {
  const strings = useStrings();
  const file = useText(threadId, path);
  if (file.isPending) return <LoadingState />;
  if (file.isError) return <ErrorState text={strings.fileMissing} onRetry={() => void file.refetch()} />;
  if (file.data === null) return <ErrorState text={strings.noPreview} />;
  if (kind === "table") return <TableView text={file.data.text} path={path} />;
  return (
    <div className="min-h-0 flex-1 overflow-y-auto p-4">
      <Markdown text={file.data.text} growing={false} />
    </div>
  );
}
