/** What jsdom lacks of a browser: media queries, sizes and scrolling, of a wide window that never changes. */

import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";

class UnchangingSize implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

globalThis.ResizeObserver = UnchangingSize;
window.matchMedia = (media) => Object.assign(new EventTarget(), { matches: false, media }) as MediaQueryList;
Element.prototype.scrollIntoView = () => {};
window.scrollTo = () => {};
Range.prototype.getClientRects = () => Object.assign([], { item: () => null });
Object.defineProperty(crypto, "subtle", { value: { digest: async () => new ArrayBuffer(32) } });
// Everything is as large as a window, so that lists that draw only what is in view draw something.
Object.defineProperty(Element.prototype, "clientHeight", { get: () => 800 });
Object.defineProperty(Element.prototype, "clientWidth", { get: () => 1280 });
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
