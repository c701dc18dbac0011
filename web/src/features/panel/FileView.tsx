/** View of one file: preview or source. */

import { ArrowLeft, Download } from "lucide-react";
import { Suspense, useState } from "react";
import { artifactUrl, fileName } from "@/api/artifacts";
import { TextView } from "@/features/panel/TextView";
import { FilePreview } from "@/files/FilePreview";
import { mayBeText, previewOf } from "@/files/previews";
import { useStrings } from "@/i18n/context";
import { IconButton } from "@/ui/IconButton";
import { Segments } from "@/ui/Segments";
import { ErrorState, LoadingState } from "@/ui/states";

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
          <FilePreview kind={preview} threadId={threadId} path={path} />
        ) : mayBeText(path) ? (
          <TextView key={path} threadId={threadId} path={path} />
        ) : (
          <ErrorState text={strings.noPreview} />
        )}
      </Suspense>
    </section>
  );
}
