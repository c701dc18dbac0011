/** Keeps the end in view while the reader is there, and never moves a reader who is elsewhere. */

import { type RefObject, useCallback, useEffect, useRef, useState } from "react";

const NEAR_PX = 48;

interface StickToEnd {
  readonly area: RefObject<HTMLDivElement | null>;
  readonly content: RefObject<HTMLDivElement | null>;
  readonly atEnd: boolean;
  readonly toEnd: () => void;
}

export function useStickToEnd(): StickToEnd {
  const area = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const stuck = useRef(true);
  const [atEnd, setAtEnd] = useState(true);

  const toEnd = useCallback(() => {
    stuck.current = true;
    setAtEnd(true);
    if (area.current !== null) area.current.scrollTop = area.current.scrollHeight;
  }, []);

  useEffect(() => {
    const [box, inside] = [area.current, content.current];
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
  }, []);

  return { area, content, atEnd, toEnd };
}
