/** Badge with the number of files that an answer changed; it opens their diffs. */

import { useQuery } from "@tanstack/react-query";
import { FileDiff } from "lucide-react";
import { useChangeStrings } from "@/i18n/useChangeStrings";
import { isActive } from "@/run/conversation";
import { usePage } from "@/state/context";
import { useServer } from "@/state/server";
import { useOpenPanel } from "@/state/usePanel";

export function ChangedFiles({ threadId, runId }: { threadId: string; runId: string }) {
  const strings = useChangeStrings();
  const server = useServer();
  const open = useOpenPanel();
  const running = usePage(({ conversation: { run } }) => run.id === runId && isActive(run));
  const changes = useQuery({
    queryKey: ["run", threadId, runId, "changes"],
    queryFn: () => server.runChanges(threadId, runId, false),
    enabled: !running,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  if (changes.data === undefined) return null;
  const { added, changed, removed, renamed } = changes.data.counts;
  const count = added + changed + removed + renamed;
  if (count === 0) return null;
  return (
    <button
      type="button"
      onClick={() => open("changes", undefined, runId)}
      className="inline-flex h-7 items-center gap-2 self-start rounded-full border border-line px-3 text-small text-soft hover:bg-tint hover:text-ink"
    >
      <FileDiff aria-hidden className="size-4 text-faint" />
      {strings.filesChanged(count)}
    </button>
  );
}
