/** Sticks to the end unless the user has scrolled up. */

import { type RefObject, useCallback, useEffect, useRef, useState } from "react";

const NEAR_PX = 48;

interface StickToEnd {
  /** Scroll container; null until mounted. */
  readonly area: HTMLDivElement | null;
  readonly setArea: (area: HTMLDivElement | null) => void;
  readonly content: RefObject<HTMLDivElement | null>;
  readonly atEnd: boolean;
  readonly toEnd: () => void;
}

/** `fromStart` opens at the beginning instead. */
export function useStickToEnd(fromStart = false): StickToEnd {
  const [area, setArea] = useState<HTMLDivElement | null>(null);
  const content = useRef<HTMLDivElement>(null);
  const stuck = useRef(!fromStart);
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

    const isNear = () => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    // Someone who has just opened a thread at its beginning reads it from there.
    const isUnread = () => fromStart && box.scrollTop < NEAR_PX;
    const onScroll = () => {
      const near = isNear();
      // Only upward scrolling leaves the end; growing content does not.
      if (near) stuck.current = true;
      else if (box.scrollTop < lastTop) stuck.current = false;
      lastTop = box.scrollTop;
      setAtEnd(stuck.current || isUnread());
    };
    const stick = () => {
      if (stuck.current) box.scrollTop = box.scrollHeight;
    };
    let frame = 0;
    const follow = new ResizeObserver(() => {
      stick();
      // The virtual list may move what it has measured after this.
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(stick);
      if (!stuck.current) setAtEnd(isNear() || isUnread());
    });
    box.addEventListener("scroll", onScroll, { passive: true });
    follow.observe(inside);
    follow.observe(box);
    return () => {
      box.removeEventListener("scroll", onScroll);
      follow.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [area, fromStart]);

  return { area, setArea, content, atEnd, toEnd };
}
