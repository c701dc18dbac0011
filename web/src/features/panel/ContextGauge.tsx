/** Context usage and cost of the thread. */

import { useQuery } from "@tanstack/react-query";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatCost, formatCount } from "@/i18n/format";
import { isCreated } from "@/run/conversation";
import { usePage } from "@/state/context";
import { useFeature, useServer } from "@/state/server";

const NEARLY_FULL = 0.8;

export function ContextGauge({ threadId }: { threadId: string }) {
  const strings = useStrings();
  const language = useLanguage();
  const server = useServer();
  const counted = useFeature("token_usage");
  // The thread does not exist on the server before its first run.
  const created = usePage(({ conversation }) => isCreated(conversation));
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
  return (
    <span className="flex items-center gap-2 text-small text-faint" title={label}>
      {totals?.cost && <span>{formatCost(totals.cost, language)}</span>}
      {fraction === null ? (
        <span>{label}</span>
      ) : (
        <meter
          aria-label={label}
          min={0}
          max={1}
          high={NEARLY_FULL}
          value={Math.min(fraction, 1)}
          className="h-2 w-12"
        />
      )}
    </span>
  );
}
