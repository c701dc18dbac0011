/** What jsdom lacks of a browser: media queries, sizes and scrolling, of a wide window that never changes. */

import { cleanup, configure } from "@testing-library/react";
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
window.scrollTo = () => {};
Range.prototype.getClientRects = () => Object.assign([], { item: () => null });
Object.defineProperty(crypto, "subtle", { value: { digest: async () => new ArrayBuffer(32) } });
// Dialogs are open or not; that they keep the rest of the page away is for a browser to show.
HTMLDialogElement.prototype.showModal = function showModal() {
  this.open = true;
};
HTMLDialogElement.prototype.close = function close() {
  if (!this.open) return;
  this.open = false;
  this.dispatchEvent(new Event("close"));
};
Element.prototype.hasPointerCapture = () => false;

// The machine may be shared, and parts of the page are loaded when first needed.
configure({ asyncUtilTimeout: 20_000 });
afterEach(cleanup);
