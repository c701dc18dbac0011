/** Announces status changes to screen readers, not every token. */

import { useStrings } from "@/i18n/context";
import type { Strings } from "@/i18n/i18n";
import { type Conversation, isActive, isAsking, type Phase } from "@/run/reduce";
import { usePage } from "@/state/context";

export function LiveRegion() {
  const strings = useStrings();
  const run = usePage(({ conversation }) => statusOf(conversation));
  return (
    <div role="status" aria-live="polite" className="sr-only">
      {run === null ? "" : strings[run]}
    </div>
  );
}

type StatusKey = Extract<keyof Strings, `status${string}`>;

const STATUS: Readonly<Record<Phase, StatusKey | null>> = {
  idle: null,
  starting: "statusAnswering",
  running: "statusAnswering",
  done: "statusDone",
  stopped: "statusStopped",
  failed: "statusFailed",
};

function statusOf(conversation: Conversation): StatusKey | null {
  const { phase, connected } = conversation.run;
  if (conversation.approval !== null && !isActive(conversation.run)) return "statusApproval";
  if (phase === "done" && isAsking(conversation)) return "statusAsking";
  return connected ? STATUS[phase] : "statusReconnecting";
}
