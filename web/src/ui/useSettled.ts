/** What somebody types, when they have paused. */

import { useEffect, useState } from "react";

const PAUSE_MS = 200;

/** The value, when it has not changed for a moment. */
export function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
