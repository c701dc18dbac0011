/** View of one file: preview or source. */

import { ArrowLeft, Download } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { artifactUrl } from "@/api/artifacts";
import { useFileUrls, useStrings } from "@/app/context";
import { fileName } from "@/features/chat/tools";
import { mayBeText, type Preview, previewOf } from "@/features/panel/kinds";
import { TextView } from "@/features/panel/TextView";
import { useText } from "@/features/panel/useText";
import { Markdown } from "@/markdown/Markdown";
import { IconButton } from "@/ui/IconButton";
import { Segments } from "@/ui/Segments";
import { ErrorState, LoadingState } from "@/ui/states";

const PdfView = lazy(() => import("@/features/panel/PdfView"));
const TableView = lazy(() => import("@/features/panel/TableView"));

interface Props {
  readonly threadId: string;
  readonly path: string;
  readonly onBack: () => void;
}

type View = "preview" | "text";

export function FileView({ threadId, path, onBack }: Props) {
  const strings = useStrings();
  const preview = previewOf(path);
  const [chosen, setChosen] = useState<View>("preview");
  const view: View = preview === null ? "text" : chosen;
  const name = fileName(path);
  return (
    <section aria-label={name} className="flex min-h-0 flex-1 flex-col">
      <div className="flex h-11 shrink-0 items-center gap-1 border-b border-line px-2">
        <IconButton icon={ArrowLeft} label={strings.back} onClick={onBack} />
        <h2 title={path} className="min-w-0 flex-1 truncate font-medium">
          {name}
        </h2>
        {preview !== null && mayBeText(path) && (
          <Segments<View>
            label={strings.fileView}
            value={view}
            options={{ preview: strings.preview, text: strings.source }}
            onChoose={setChosen}
          />
        )}
        <a
          href={artifactUrl(threadId, path, { download: true })}
          download={name}
          aria-label={strings.download(name)}
          title={strings.download(name)}
          className="inline-flex size-8 shrink-0 items-center justify-center rounded-box text-faint hover:bg-tint hover:text-ink"
        >
          <Download aria-hidden className="size-4" />
        </a>
      </div>
      <Suspense fallback={<LoadingState />}>
        {view === "preview" && preview !== null ? (
          <PreviewOf kind={preview} threadId={threadId} path={path} />
        ) : mayBeText(path) ? (
          <TextView key={path} threadId={threadId} path={path} />
        ) : (
          <ErrorState text={strings.noPreview} />
        )}
      </Suspense>
    </section>
  );
}

export function PreviewOf({ kind, threadId, path }: { kind: Preview; threadId: string; path: string }) {
  const addresses = useFileUrls();
  switch (kind) {
    case "picture":
      return (
        <div className="flex min-h-0 flex-1 items-center justify-center overflow-auto bg-rail p-4">
          <img
            src={addresses.artifact(path)}
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
          src={addresses.preview(path)}
          title={fileName(path)}
          sandbox="allow-scripts"
          className="min-h-0 w-full flex-1 bg-sheet [color-scheme:light]"
        />
      );
    case "pdf":
      return <PdfView threadId={threadId} path={path} />;
    default:
      return <PreviewOfText kind={kind} threadId={threadId} path={path} />;
  }
}

function PreviewOfText({
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
