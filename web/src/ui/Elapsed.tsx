/** A running clock. */

import { useEffect, useState } from "react";
import { useLanguage } from "@/i18n/context";
import { formatDuration, SHOWN_FROM_MS } from "@/i18n/format";

const SECOND_MS = 1000;
// Clocks of this machine and the server may differ; a longer time is not a wait.
const LONGEST_MS = 24 * 3600 * SECOND_MS;

interface Props {
  readonly since: number | null;
  readonly className?: string;
}

/** Shows the whole seconds since a time, or since it appeared if that is unknown. */
export function Elapsed({ since, className = "shrink-0 text-small text-faint" }: Props) {
  const language = useLanguage();
  const [shownAt] = useState(() => Date.now());
  const [now, setNow] = useState(shownAt);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), SECOND_MS);
    return () => clearInterval(timer);
  }, []);
  const known = since !== null && shownAt - since >= 0 && shownAt - since < LONGEST_MS;
  const elapsed = now - (known ? since : shownAt);
  if (elapsed < SHOWN_FROM_MS) return null;
  const whole = Math.floor(elapsed / SECOND_MS) * SECOND_MS;
  return <span className={`${className} tabular-nums`}>{formatDuration(whole, language)}</span>;
}
