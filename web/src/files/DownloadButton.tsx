/** Download link with the look of a button. */

import { Download } from "lucide-react";
import { fileName } from "@/api/artifacts";
import { usePreviewStrings } from "@/i18n/useResultStrings";
import { buttonLook } from "@/ui/Button";
import { useFileUrls } from "@/ui/FileUrls";

export function DownloadButton({ path }: { path: string }) {
  const strings = usePreviewStrings();
  const urls = useFileUrls();
  return (
    <a
      href={urls.artifact(path, { download: true })}
      download={fileName(path)}
      className={`${buttonLook()} gap-2`}
    >
      <Download aria-hidden className="size-4 text-faint" />
      {strings.downloadFile}
    </a>
  );
}
