/** Says to screen readers what happens, once, not token by token. */

import { usePage, useWords } from "@/app/context";
import type { Phase, Run } from "@/run/reduce";
import type { Words } from "@/words/words";

export function StatusVoice() {
  const words = useWords();
  const run = usePage(({ conversation }) => statusOf(conversation.run));
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

function statusOf({ phase, connected }: Run): StatusKey | null {
  return connected ? STATUS[phase] : "statusReconnecting";
}
