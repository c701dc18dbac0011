/** Browser APIs missing in jsdom, for a wide window of fixed size. */

import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";
import { loadLanguage } from "@/i18n/i18n";

class UnchangingSize implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

/** Never reports an intersection. */
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
// Tall enough to render every entry.
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
// Minimal dialogs; focus trapping is covered by browser tests.
HTMLDialogElement.prototype.showModal = function showModal() {
  this.open = true;
};
HTMLDialogElement.prototype.close = function close() {
  if (!this.open) return;
  this.open = false;
  this.dispatchEvent(new Event("close"));
};
Element.prototype.hasPointerCapture = () => false;

// Lazy chunks may load slowly on a shared machine.
configure({ asyncUtilTimeout: 20_000 });
afterEach(cleanup);

// Tests in Chinese need not wait for it.
await loadLanguage("zh");
