/** Notices in the transcript: an earlier version is shown, or earlier messages were summarized. */

import { FoldVertical, History } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { Button } from "@/ui/Button";

export function EarlierVersionNotice() {
  const strings = useStrings();
  const actions = useActions();
  const looking = usePage(({ conversation }) => conversation.rewoundRuns.size > 0);
  if (!looking) return null;
  return (
    <div className="flex animate-appear items-center gap-3 rounded-box border border-line bg-rail px-4 py-3 text-small text-soft">
      <History aria-hidden className="size-4 shrink-0" />
      <p className="min-w-0 flex-1">{strings.earlierVersion}</p>
      <Button onClick={() => actions.selectVersion(new Set())}>{strings.showLatest}</Button>
    </div>
  );
}

/** Says that the messages above left the context of the agent, with their summary. */
export function SummaryLine({ notes }: { notes: string }) {
  const { workspace } = useStrings();
  return (
    <details className="mb-6 text-small text-faint">
      <summary className="flex cursor-pointer list-none items-center gap-3 before:h-px before:flex-1 before:bg-line after:h-px after:flex-1 after:bg-line hover:text-ink">
        <span className="flex items-center gap-1.5">
          <FoldVertical aria-hidden className="size-3.5" />
          {workspace.summarized}
        </span>
      </summary>
      <p className="mt-3 rounded-box border border-line bg-rail px-4 py-3 whitespace-pre-wrap text-soft [overflow-wrap:anywhere]">
        {notes}
      </p>
    </details>
  );
}
