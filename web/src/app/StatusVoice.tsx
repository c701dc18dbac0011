/** Says to screen readers what happens, once, not token by token. */

import { usePage, useWords } from "@/app/context";
import { type Conversation, isActive, isAsking, type Phase } from "@/run/reduce";
import type { Words } from "@/words/words";

export function StatusVoice() {
  const words = useWords();
  const run = usePage(({ conversation }) => statusOf(conversation));
  return (
    <div role="status" aria-live="polite" className="sr-only">
      {run === null ? "" : words[run]}
    </div>
  );
}

type StatusKey = Extract<keyof Words, `status${string}`>;

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
