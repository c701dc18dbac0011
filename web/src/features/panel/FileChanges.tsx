/** Files that a run changed, with their diffs. */

import { useQuery } from "@tanstack/react-query";
import { ChevronRight } from "lucide-react";
import type { RunChanges } from "@/api/threadFiles";
import { EmptyPanel } from "@/features/panel/EmptyPanel";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { useChangeStrings } from "@/i18n/useChangeStrings";
import { useServer } from "@/state/server";
import { useOpenPanel, usePanel } from "@/state/usePanel";
import { DiffLines } from "@/ui/DiffLines";
import type { DiffLine } from "@/ui/diff";
import { ErrorState, LoadingState } from "@/ui/states";

type ChangedFile = NonNullable<RunChanges["files"]>[number];

export function FileChanges({ threadId }: { threadId: string }) {
  const strings = useStrings();
  const results = useChangeStrings();
  const language = useLanguage();
  const server = useServer();
  const open = useOpenPanel();
  const { run: chosen } = usePanel();
  const runs = useQuery({ queryKey: ["thread", threadId, "runs"], queryFn: () => server.runs(threadId) });
  if (runs.isPending) return <LoadingState />;
  if (runs.isError) return <ErrorState text={strings.runUnavailable} onRetry={() => void runs.refetch()} />;
  const run = runs.data.find(({ run_id }) => run_id === chosen) ?? runs.data[0];
  if (run === undefined) return <EmptyPanel text={strings.noRuns} />;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys
    <div tabIndex={0} className="min-h-0 flex-1 overflow-y-auto p-4">
      {runs.data.length > 1 && (
        <label className="mb-3 flex items-center gap-2 text-small text-faint">
          {strings.run}
          <select
            value={run.run_id}
            onChange={(event) => open("changes", undefined, event.target.value)}
            className="h-8 rounded-box border border-line-strong bg-raised px-2 text-ink"
          >
            {runs.data.map(({ run_id, created_at }) => (
              <option key={run_id} value={run_id}>
                {formatMoment(created_at, language)}
              </option>
            ))}
          </select>
        </label>
      )}
      <ChangesOfRun key={run.run_id} threadId={threadId} runId={run.run_id} results={results} />
    </div>
  );
}

interface Props {
  readonly threadId: string;
  readonly runId: string;
  readonly results: ReturnType<typeof useChangeStrings>;
}

function ChangesOfRun({ threadId, runId, results }: Props) {
  const server = useServer();
  const changes = useQuery({
    queryKey: ["thread", threadId, "diffs", runId],
    queryFn: () => server.runChanges(threadId, runId, true),
  });
  if (changes.isPending) return <LoadingState />;
  if (changes.isError)
    return <ErrorState text={results.changesUnavailable} onRetry={() => void changes.refetch()} />;
  const { files, is_truncated: isCut, problem } = changes.data;
  if (problem !== null) return <p className="text-faint">{results.changesUnknown}</p>;
  if (files === null || files.length === 0) return <p className="text-faint">{results.noChanges}</p>;
  return (
    <>
      <ul aria-label={results.filesChanged(files.length)} className="flex flex-col gap-2">
        {files.map((file) => (
          <li key={file.path}>
            <FileDiff file={file} results={results} opened={files.length <= 5} />
          </li>
        ))}
      </ul>
      {isCut && <p className="mt-3 text-small text-faint">{results.changesCut}</p>}
    </>
  );
}

interface FileDiffProps {
  readonly file: ChangedFile;
  readonly results: Props["results"];
  readonly opened: boolean;
}

function FileDiff({ file, results, opened }: FileDiffProps) {
  return (
    <details open={opened} className="group overflow-hidden rounded-box border border-line">
      <summary className="flex cursor-pointer items-center gap-2 px-2 py-1.5 hover:bg-tint focus-visible:-outline-offset-2">
        <ChevronRight aria-hidden className="size-4 shrink-0 text-faint group-open:rotate-90" />
        <span title={file.path} className="min-w-0 flex-1 truncate font-medium">
          {file.path.replace("/mnt/user-data/", "")}
        </span>
        {file.lines_added !== null && (
          <span className="shrink-0 text-small text-done">+{file.lines_added}</span>
        )}
        {file.lines_removed !== null && (
          <span className="shrink-0 text-small text-error">−{file.lines_removed}</span>
        )}
        <span className="shrink-0 text-small text-faint">{results.statuses[file.status] ?? file.status}</span>
      </summary>
      {file.previous_path !== null && (
        <p className="border-t border-line px-3 py-1.5 text-small text-faint [overflow-wrap:anywhere]">
          {results.renamedFrom(file.previous_path)}
        </p>
      )}
      {file.diff !== null ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys
        <pre tabIndex={0} className="overflow-x-auto border-t border-line py-1 font-mono text-small">
          <DiffLines lines={linesOf(file.diff)} />
        </pre>
      ) : (
        <p className="border-t border-line px-3 py-1.5 text-small text-faint">{results.noDiff}</p>
      )}
    </details>
  );
}

/** Return the lines of a unified diff, without the names of the files. */
export function linesOf(diff: string): readonly DiffLine[] {
  const lines = diff.replace(/\n$/, "").split("\n");
  const first = lines.findIndex((line) => line.startsWith("@@"));
  return lines.slice(Math.max(first, 0)).map((line) => {
    if (line.startsWith("+")) return { sign: "+", text: line.slice(1) };
    if (line.startsWith("-")) return { sign: "−", text: line.slice(1) };
    return { sign: " ", text: line.startsWith(" ") ? line.slice(1) : line };
  });
}
