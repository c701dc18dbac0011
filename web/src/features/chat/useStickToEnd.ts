/** Keeps the end in view while the reader is there, and never moves a reader who is elsewhere. */

import { type RefObject, useCallback, useEffect, useRef, useState } from "react";

const NEAR_PX = 48;

interface StickToEnd {
  /** What scrolls; null until it is there. */
  readonly area: HTMLDivElement | null;
  readonly setArea: (area: HTMLDivElement | null) => void;
  readonly content: RefObject<HTMLDivElement | null>;
  readonly atEnd: boolean;
  readonly toEnd: () => void;
}

export function useStickToEnd(): StickToEnd {
  const [area, setArea] = useState<HTMLDivElement | null>(null);
  const content = useRef<HTMLDivElement>(null);
  const stuck = useRef(true);
  const [atEnd, setAtEnd] = useState(true);

  const toEnd = useCallback(() => {
    stuck.current = true;
    setAtEnd(true);
    if (area !== null) area.scrollTop = area.scrollHeight;
  }, [area]);

  useEffect(() => {
    const [box, inside] = [area, content.current];
    if (box === null || inside === null) return;
    let lastTop = box.scrollTop;

    const onScroll = () => {
      const near = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
      // Growing content moves the end away without anyone scrolling; only a move upwards means leaving.
      if (near) stuck.current = true;
      else if (box.scrollTop < lastTop) stuck.current = false;
      lastTop = box.scrollTop;
      setAtEnd(stuck.current);
    };
    const follow = new ResizeObserver(() => {
      if (stuck.current) box.scrollTop = box.scrollHeight;
    });
    box.addEventListener("scroll", onScroll, { passive: true });
    follow.observe(inside);
    follow.observe(box);
    return () => {
      box.removeEventListener("scroll", onScroll);
      follow.disconnect();
    };
  }, [area]);

  return { area, setArea, content, atEnd, toEnd };
}
