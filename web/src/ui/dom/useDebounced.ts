/** Debounces a value. */

import { useEffect, useState } from "react";

const PAUSE_MS = 200;

/** Return the value once it has been stable for a moment. */
export function useDebounced(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
