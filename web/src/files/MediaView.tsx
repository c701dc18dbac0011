/** Player of a sound or video file. */

import { useState } from "react";
import { fileName } from "@/api/artifacts";
import { DownloadButton } from "@/files/DownloadButton";
import { usePreviewStrings } from "@/i18n/useResultStrings";
import { useFileUrls } from "@/ui/FileUrls";
import { ErrorState } from "@/ui/states";

export default function MediaView({ kind, path }: { kind: "sound" | "film"; path: string }) {
  const strings = usePreviewStrings();
  const urls = useFileUrls();
  const [failed, setFailed] = useState(false);
  const player = {
    src: urls.artifact(path),
    controls: true,
    preload: "metadata",
    "aria-label": fileName(path),
    onError: () => setFailed(true),
  } as const;
  if (failed)
    return (
      <ErrorState text={strings.mediaFailed}>
        <DownloadButton path={path} />
      </ErrorState>
    );
  return (
    <div className="flex min-h-0 flex-1 items-center justify-center overflow-auto bg-rail p-4">
      {kind === "sound" ? (
        <audio {...player} className="w-full max-w-[36rem]" />
      ) : (
        <video {...player} className="max-h-full w-full max-w-[60rem]" />
      )}
    </div>
  );
}
