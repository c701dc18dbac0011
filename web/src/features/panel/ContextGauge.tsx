/** Context usage of the thread as a ring, with a card of details. */

import { useQuery } from "@tanstack/react-query";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatCost, formatCount } from "@/i18n/format";
import { useWorkspaceParts } from "@/i18n/workspaceParts";
import { isCreated } from "@/run/conversation";
import { isActive } from "@/run/reduce";
import { useActions, usePage } from "@/state/context";
import { useFeature, useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Popover } from "@/ui/Popover";

const NEARLY_FULL = 0.8;
const FULL = 0.95;

export default function ContextGauge({ threadId }: { threadId: string }) {
  const strings = useStrings();
  const parts = useWorkspaceParts();
  const language = useLanguage();
  const server = useServer();
  const actions = useActions();
  const counted = useFeature("token_usage");
  // The thread does not exist on the server before its first run.
  const created = usePage(({ conversation }) => isCreated(conversation));
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const usage = useQuery({
    queryKey: ["thread", threadId, "usage"],
    queryFn: () => server.threadUsage(threadId),
    enabled: counted && created,
  });
  const { context_usage: context, totals } = usage.data ?? {};
  if (!context) return null;
  const { used_tokens: used, window_tokens: window, fraction } = context;
  const label =
    window === null || fraction === null
      ? strings.contextUsed(formatCount(used, language))
      : strings.contextFull(Math.round(fraction * 100), formatCount(window, language));
  const facts: readonly (readonly [string, string])[] = [
    [parts.contextUsed, strings.tokens(formatCount(used, language))],
    [
      parts.contextWindow,
      window === null ? parts.contextUnknown : strings.tokens(formatCount(window, language)),
    ],
    ...(totals?.cost ? [[parts.spent, formatCost(totals.cost, language)] as const] : []),
  ];
  return (
    <Popover
      label={parts.context}
      trigger={(props) => (
        <button
          type="button"
          aria-label={label}
          title={label}
          data-shortcut="context"
          className="inline-flex size-8 shrink-0 items-center justify-center rounded-box hover:bg-tint"
          {...props}
        >
          <Ring fraction={fraction ?? 0} />
        </button>
      )}
    >
      {(close) => (
        <>
          <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
            {facts.map(([name, value]) => (
              <div key={name} className="contents">
                <dt className="text-faint">{name}</dt>
                <dd className="text-right tabular-nums">{value}</dd>
              </div>
            ))}
          </dl>
          <Button
            className="mt-3 w-full"
            disabled={active}
            onClick={() => {
              close();
              void actions.compact();
            }}
          >
            {parts.summarizeNow}
          </Button>
          <p className="mt-2 text-small text-faint">{parts.summarizeHint}</p>
        </>
      )}
    </Popover>
  );
}

const RADIUS = 6;
const LENGTH = 2 * Math.PI * RADIUS;

function Ring({ fraction }: { fraction: number }) {
  const shown = Math.min(Math.max(fraction, 0), 1);
  const level = shown >= FULL ? "full" : shown >= NEARLY_FULL ? "high" : "normal";
  const colour = { normal: "stroke-accent", high: "stroke-warning", full: "stroke-error" }[level];
  return (
    <svg aria-hidden="true" viewBox="0 0 16 16" className="size-4 -rotate-90" data-level={level}>
      <circle cx="8" cy="8" r={RADIUS} fill="none" strokeWidth="2.5" className="stroke-line-strong" />
      <circle
        cx="8"
        cy="8"
        r={RADIUS}
        fill="none"
        strokeWidth="2.5"
        strokeDasharray={`${shown * LENGTH} ${LENGTH}`}
        className={colour}
      />
    </svg>
  );
}
