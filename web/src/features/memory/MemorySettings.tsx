/** Memory switch and pending extractions. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { isUnderWay, type MemoryStatus, type PendingThread } from "@/api/memory";
import { ThreadLink } from "@/features/memory/ThreadLink";
import { useShown } from "@/features/memory/useMemory";
import { useLanguage } from "@/i18n/context";
import { formatDuration } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { memoryKey } from "@/state/queries";
import { useServer } from "@/state/server";
import { Switch } from "@/ui/Switch";

export function MemorySettings({ status: { config, pending } }: { status: MemoryStatus }) {
  const strings = useMemoryStrings();
  const change = useMemorySwitch();
  const on = config.mode === "tool" ? strings.toolsHint : strings.onHint;
  return (
    <div className="rounded-box border border-line">
      <div className="flex items-center gap-3 px-4 py-3">
        <div className="min-w-0 flex-1">
          <p className="font-medium">{strings.remember}</p>
          <p className="text-small text-faint">
            {!config.enabled ? strings.serverOff : config.switched_on ? on : strings.offHint}
          </p>
          {change.isError && (
            <p role="alert" className="text-small text-error">
              {strings.notSwitched} {sentence(change.error.message)}
            </p>
          )}
        </div>
        <Switch
          on={config.switched_on && config.enabled}
          label={strings.remember}
          disabled={!config.enabled}
          onSwitch={(on) => change.mutate(on)}
        />
      </div>
      <div role="status">{pending.length > 0 && <PendingThreads pending={pending} />}</div>
    </div>
  );
}

/** Optimistic, reverted on error. */
function useMemorySwitch() {
  const { of } = useShown();
  const server = useServer();
  const queries = useQueryClient();
  const show = (switched_on: boolean) =>
    queries.setQueryData<MemoryStatus>(
      memoryKey(of),
      (status) => status && { ...status, config: { ...status.config, switched_on } },
    );
  return useMutation({
    networkMode: "always",
    mutationFn: (on: boolean) => server.switchMemory(of, on),
    onMutate: (on) => void show(on),
    onError: (_, on) => void show(!on),
    onSettled: () => queries.invalidateQueries({ queryKey: memoryKey(of) }),
  });
}

const MOST = 5;
const MOVING = "size-2 animate-breathe rounded-full bg-running";

function PendingThreads({ pending }: { pending: readonly PendingThread[] }) {
  const strings = useMemoryStrings();
  return (
    <div className="border-t border-line px-4 py-3 text-small">
      <p className="flex items-center gap-2 text-soft">
        <span aria-hidden className={pending.some(isUnderWay) ? MOVING : "size-2 rounded-full bg-line"} />
        {strings.pending(pending.length)}
      </p>
      <ul className="mt-1 ml-4">
        {pending.slice(0, MOST).map((thread) => (
          <li key={thread.thread_id} className="flex flex-wrap gap-x-2 py-0.5 text-faint">
            <span className="max-w-full truncate wide:max-w-[60%]">
              <ThreadLink threadId={thread.thread_id} />
            </span>
            <span>
              <DueTime thread={thread} />
            </span>
          </li>
        ))}
        {pending.length > MOST && (
          <li className="py-0.5 text-faint">{strings.pendingMore(pending.length - MOST)}</li>
        )}
      </ul>
    </div>
  );
}

function DueTime({ thread: { due_at, is_being_read, is_unpaid } }: { thread: PendingThread }) {
  const strings = useMemoryStrings();
  const language = useLanguage();
  const now = useNow();
  if (is_being_read) return strings.readingNow;
  if (is_unpaid) return strings.readOutOfBudget;
  const left = Date.parse(due_at) - now;
  // Rounded so that screen readers are not notified every second.
  if (left <= 0) return strings.readSoon;
  if (left <= MINUTE_MS) return strings.readIn(formatDuration(Math.ceil(left / 5000) * 5000, language));
  const minutes = { style: "unit", unit: "minute", unitDisplay: "short" } as const;
  return strings.readIn(new Intl.NumberFormat(language, minutes).format(Math.ceil(left / MINUTE_MS)));
}

const TICK_MS = 1000;
const MINUTE_MS = 60_000;

function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
