/** What jsdom lacks of a browser: media queries and sizes, of a wide window that never changes. */

import { cleanup } from "@testing-library/react";
import { afterEach } from "vitest";

class UnchangingSize implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

/** Nothing comes into view by itself. */
class NeverInView implements IntersectionObserver {
  readonly root = null;
  readonly rootMargin = "";
  readonly scrollMargin = "";
  readonly thresholds = [];
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
  takeRecords(): IntersectionObserverEntry[] {
    return [];
  }
}

globalThis.ResizeObserver = UnchangingSize;
globalThis.IntersectionObserver = NeverInView;
// Tall enough for every entry of a test, so that all are drawn.
const SIZES = {
  offsetHeight: 50,
  offsetWidth: 1000,
  clientHeight: 100_000,
  clientWidth: 1000,
};
for (const [name, size] of Object.entries(SIZES)) {
  Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size });
}
window.matchMedia = (media) => Object.assign(new EventTarget(), { matches: false, media }) as MediaQueryList;
Element.prototype.scrollIntoView = () => {};
Element.prototype.hasPointerCapture = () => false;

afterEach(cleanup);
