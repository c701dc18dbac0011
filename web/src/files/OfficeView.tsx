/** Preview of a presentation, a document, a workbook or an archive. */

import { useQuery } from "@tanstack/react-query";
import { Folder } from "lucide-react";
import { useState } from "react";
import { fileName } from "@/api/artifacts";
import { ApiError } from "@/api/http";
import type { OfficePreview } from "@/api/threadFiles";
import { DocumentView } from "@/files/DocumentView";
import { DownloadButton } from "@/files/DownloadButton";
import { FileIcon } from "@/files/FileIcon";
import { Grid } from "@/files/Grid";
import { SlidesView } from "@/files/SlidesView";
import { splitHead } from "@/files/sortRows";
import { useLanguage } from "@/i18n/context";
import { formatCount, formatSize } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { usePreviewStrings } from "@/i18n/useResultStrings";
import { useServer } from "@/state/server";
import { ErrorState, LoadingState } from "@/ui/states";

const NOT_READY = "PreviewNotReady";
const MAY_PASS: readonly string[] = [NOT_READY, "PreviewUnavailable"];
const POLL_MS = 3000;

interface Props {
  readonly threadId: string;
  readonly path: string;
}

export default function OfficeView({ threadId, path }: Props) {
  const strings = usePreviewStrings();
  const server = useServer();
  const preview = useQuery({
    queryKey: ["thread", threadId, "office", path],
    queryFn: () => server.officePreview(threadId, path),
    // A file that is refused stays refused.
    retry: (count, error) => !(error instanceof ApiError) && count < 2,
    // Packages that make previews are installed when the server runs for the first time.
    refetchInterval: ({ state }) => (state.error?.name === NOT_READY ? POLL_MS : false),
  });
  if (preview.isPending) return <LoadingState />;
  if (preview.isError) {
    const { name, message } = preview.error;
    const isKnown = preview.error instanceof ApiError && strings.problems[name] !== undefined;
    return (
      <ErrorState
        text={strings.problems[name] ?? strings.previewFailed}
        onRetry={isKnown && !MAY_PASS.includes(name) ? undefined : () => void preview.refetch()}
      >
        {isKnown && (
          <details className="text-small text-faint">
            <summary className="cursor-pointer">{strings.details}</summary>
            <p lang="en" className="[overflow-wrap:anywhere]">
              {sentence(message.replace(/^no preview of '[^']*': /, ""))}
            </p>
          </details>
        )}
        <DownloadButton path={path} />
      </ErrorState>
    );
  }
  return <Content preview={preview.data} path={path} />;
}

function Content({ preview, path }: { preview: OfficePreview; path: string }) {
  switch (preview.kind) {
    case "slides":
      return <SlidesView preview={preview} />;
    case "document":
      return <DocumentView preview={preview} label={fileName(path)} />;
    case "workbook":
      return <WorkbookView preview={preview} />;
    case "archive":
      return <ArchiveView preview={preview} label={fileName(path)} />;
  }
}

function WorkbookView({ preview }: { preview: Extract<OfficePreview, { kind: "workbook" }> }) {
  const strings = usePreviewStrings();
  const language = useLanguage();
  const [chosen, setChosen] = useState(0);
  const sheet = preview.sheets[chosen] ?? preview.sheets[0];
  if (sheet === undefined) return <ErrorState text={strings.emptySheet} />;
  const { head, rows } = splitHead(sheet.rows);
  const count = (number: number) => formatCount(number, language);
  const isCut = sheet.rows.length < sheet.total_rows || head.length < sheet.total_columns;
  const size = isCut
    ? strings.cellsCut(
        count(sheet.rows.length),
        count(sheet.total_rows),
        count(head.length),
        count(sheet.total_columns),
      )
    : strings.cellsShown(count(sheet.total_rows), count(sheet.total_columns));
  return (
    <>
      {sheet.rows.length === 0 ? (
        <p className="min-h-0 flex-1 p-4 text-faint">{strings.emptySheet}</p>
      ) : (
        <Grid key={chosen} head={head} rows={rows} label={sheet.name} />
      )}
      <div
        role="tablist"
        aria-label={strings.sheets}
        className="flex shrink-0 gap-1 overflow-x-auto border-t border-line px-2 py-1"
      >
        {preview.sheets.map(({ name, is_hidden: isHidden }, index) => (
          <button
            // biome-ignore lint/suspicious/noArrayIndexKey: sheets keep their places
            key={index}
            type="button"
            role="tab"
            aria-selected={index === chosen}
            onClick={() => setChosen(index)}
            className="h-7 shrink-0 rounded-box px-3 text-small text-soft hover:text-ink aria-selected:bg-tint aria-selected:font-medium aria-selected:text-ink"
          >
            {isHidden ? strings.hiddenSheet(name) : name}
          </button>
        ))}
      </div>
      <p className="shrink-0 border-t border-line px-3 py-2 text-small text-faint">
        {size}
        {preview.sheets.length < preview.total_sheets &&
          ` · ${strings.sheetsCut(preview.sheets.length, preview.total_sheets)}`}
      </p>
    </>
  );
}

interface ArchiveProps {
  readonly preview: Extract<OfficePreview, { kind: "archive" }>;
  readonly label: string;
}

function ArchiveView({ preview, label }: ArchiveProps) {
  const strings = usePreviewStrings();
  const language = useLanguage();
  if (preview.total === 0) return <ErrorState text={strings.emptyArchive} />;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys */}
      <div tabIndex={0} className="min-h-0 flex-1 overflow-auto">
        <table aria-label={label} className="w-full text-small">
          <thead className="sticky top-0 bg-rail text-left">
            <tr>
              <th className="px-3 py-1.5 font-semibold">{strings.archiveName}</th>
              <th className="px-3 py-1.5 text-right font-semibold">{strings.archiveSize}</th>
              <th className="px-3 py-1.5 text-right font-semibold">{strings.archivePacked}</th>
            </tr>
          </thead>
          <tbody>
            {preview.entries.map((entry, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: names may repeat
              <tr key={index} className="border-b border-line">
                <td className="max-w-0 px-3 py-1.5">
                  <span className="flex items-start gap-2">
                    {entry.is_folder ? (
                      <Folder aria-hidden className="m-1 size-4 shrink-0 text-faint" />
                    ) : (
                      <FileIcon path={entry.name} />
                    )}
                    <span className="min-w-0 py-0.5 [overflow-wrap:anywhere]">{entry.name}</span>
                    {entry.is_encrypted && <span className="shrink-0 text-faint">{strings.locked}</span>}
                  </span>
                </td>
                <td className="w-24 px-3 py-1.5 text-right align-top whitespace-nowrap text-faint">
                  {!entry.is_folder && formatSize(entry.size, language)}
                </td>
                <td className="w-28 px-3 py-1.5 text-right align-top whitespace-nowrap text-faint">
                  {!entry.is_folder && formatSize(entry.packed, language)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="shrink-0 border-t border-line px-3 py-2 text-small text-faint">
        {strings.archiveTotal(formatCount(preview.total, language), formatSize(preview.size, language))}
        {preview.entries.length < preview.total &&
          ` · ${strings.archiveCut(formatCount(preview.entries.length, language))}`}
      </p>
    </>
  );
}
