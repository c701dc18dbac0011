/** Accepts files dropped anywhere on the page. */

import { useEffect, useRef, useState } from "react";

/** Return true while files are dragged over the page; `null` disables dropping. */
export function useDrop(take: ((files: Iterable<File>) => void) | null): boolean {
  const [over, setOver] = useState(false);
  const taking = useRef(take);
  taking.current = take;

  useEffect(() => {
    const brings = (event: DragEvent) =>
      taking.current !== null && event.dataTransfer?.types.includes("Files") === true;
    const hold = (event: DragEvent) => {
      if (!brings(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) setOver(false);
    };
    const drop = (event: DragEvent) => {
      setOver(false);
      if (!brings(event) || event.defaultPrevented) return;
      event.preventDefault();
      taking.current?.([...(event.dataTransfer?.files ?? [])]);
    };
    window.addEventListener("dragover", hold);
    window.addEventListener("dragleave", leave);
    window.addEventListener("drop", drop);
    return () => {
      window.removeEventListener("dragover", hold);
      window.removeEventListener("dragleave", leave);
      window.removeEventListener("drop", drop);
    };
  }, []);

  return over;
}
