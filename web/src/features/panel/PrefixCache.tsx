/** Use of the prefix cache by a run. */

import type { PrefixCacheBreak, PrefixCacheUsage } from "@/api/usage";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatCount, formatPercent } from "@/i18n/format";

export function PrefixCache({ usage }: { usage: PrefixCacheUsage }) {
  const strings = useStrings();
  const language = useLanguage();
  const { requests, prefix_fraction: reused, cached_fraction: cached, breaks } = usage;
  if (requests === 0) return null;
  const segments = [...new Set(breaks.map(({ segment }) => strings.prefixSegments[segment]))];
  const facts = [
    reused === null ? strings.prefixUnknown : strings.prefixReused(formatPercent(reused, language)),
    cached ? strings.prefixCached(formatPercent(cached, language)) : strings.prefixNotCached,
    ...(breaks.length > 0 ? [`${strings.prefixBroken(breaks.length)}: ${segments.join(", ")}`] : []),
  ];
  const summary = (
    <>
      <span className="font-medium">{strings.prefixCache}</span>{" "}
      <span className="text-small text-faint">{facts.join(" · ")}</span>
    </>
  );
  return (
    <section aria-label={strings.prefixCache} className="mb-4 rounded-box border border-line px-3 py-2">
      {breaks.length === 0 ? (
        <p>{summary}</p>
      ) : (
        <details>
          <summary className="cursor-pointer">{summary}</summary>
          <ol className="mt-2 flex flex-col gap-1 text-small text-soft [overflow-wrap:anywhere]">
            {breaks.map((found) => (
              <li key={found.request}>
                <Break found={found} />
              </li>
            ))}
          </ol>
        </details>
      )}
    </section>
  );
}

function Break({ found }: { found: PrefixCacheBreak }) {
  const strings = useStrings();
  const language = useLanguage();
  const { request, caller, segment, cause, lost_tokens: lost, position, name } = found;
  const what =
    segment === "message"
      ? strings.prefixMessage(position ?? 0, name)
      : strings.prefixSegments[segment] + (name === null ? "" : ` (${name})`);
  return (
    <>
      {strings.prefixRequest(request, caller === "subagent")}: {what} – {strings.prefixCauses[cause]}
      {lost > 0 && <span className="text-faint"> · {strings.prefixLost(formatCount(lost, language))}</span>}
    </>
  );
}
