/** What jsdom lacks of a browser: media queries and sizes, of a wide window that never changes. */

import { cleanup } from "@testing-library/react";
import { afterEach } from "vitest";

class UnchangingSize implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

globalThis.ResizeObserver = UnchangingSize;
window.matchMedia = (media) => Object.assign(new EventTarget(), { matches: false, media }) as MediaQueryList;
Element.prototype.scrollIntoView = () => {};
Element.prototype.hasPointerCapture = () => false;

afterEach(cleanup);
