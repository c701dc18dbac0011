/** How full the model's window is, and what the thread has cost. */

import { useQuery } from "@tanstack/react-query";
import { useLanguage, usePage, useStrings } from "@/app/context";
import { useOffers, useServer } from "@/app/server";
import { formatCost, formatCount } from "@/i18n/format";
import { isBegun } from "@/run/conversation";

const NEARLY_FULL = 0.8;

export function ContextGauge({ threadId }: { threadId: string }) {
  const strings = useStrings();
  const language = useLanguage();
  const server = useServer();
  const counted = useOffers("token_usage");
  // Before its first run is accepted, the server does not know the thread.
  const begun = usePage(({ conversation }) => isBegun(conversation));
  const usage = useQuery({
    queryKey: ["thread", threadId, "usage"],
    queryFn: () => server.threadUsage(threadId),
    enabled: counted && begun,
  });
  const { context_usage: context, totals } = usage.data ?? {};
  if (!context) return null;
  const { used_tokens: used, window_tokens: window, fraction } = context;
  const said =
    window === null || fraction === null
      ? strings.contextUsed(formatCount(used, language))
      : strings.contextFull(Math.round(fraction * 100), formatCount(window, language));
  return (
    <span className="flex items-center gap-2 text-small text-faint" title={said}>
      {totals?.cost && <span>{formatCost(totals.cost, language)}</span>}
      {fraction === null ? (
        <span>{said}</span>
      ) : (
        <meter
          aria-label={said}
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
