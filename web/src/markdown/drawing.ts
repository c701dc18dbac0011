/** Draws diagrams in an iframe created on first use. */

import fontUrl from "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2?url";
import type { Drawn } from "@/markdown/diagrams";

const FRAME = "/diagram.html";
const TIMEOUT_MS = 20_000;
// Longer diagrams would block the frame.
const LONGEST = 20_000;

/** What the frame needs to draw a diagram. */
export interface DrawRequest {
  readonly source: string;
  readonly dark: boolean;
  readonly font: string;
  /** The font of the page; null if it could not be loaded. */
  readonly fontFile: ArrayBuffer | null;
  /** Colours of the page, as CSS. */
  readonly colours: Readonly<Record<keyof typeof COLOURS, string>>;
}

/** Parts of a diagram and the variables of their colours. */
const COLOURS = {
  paper: "--paper",
  ink: "--ink",
  soft: "--ink-soft",
  node: "--tint",
  border: "--line-strong",
  accent: "--accent",
  note: "--warning-tint",
  group: "--rail",
} as const;

let frame: Promise<Window> | null = null;
let font: Promise<ArrayBuffer | null> | null = null;

/** Draw a diagram in the colours and the font of the page. Rejects for an invalid diagram. */
export async function draw(source: string, dark: boolean): Promise<Drawn> {
  if (source.length > LONGEST) throw new Error("the diagram is too long");
  font ??= fetchFont();
  const fontFile = await font;
  const request: DrawRequest = { source, dark, font: pageFont(), fontFile, colours: pageColours() };
  frame ??= openFrame();
  const window = await frame;
  const { port1, port2 } = new MessageChannel();
  const answer = new Promise<unknown>((resolve, reject) => {
    port1.onmessage = ({ data }) => resolve(data);
    setTimeout(() => reject(new Error("the diagram took too long")), TIMEOUT_MS);
  });
  window.postMessage(request, "*", [port2]);
  const { svg } = (await answer) as { readonly svg?: unknown };
  port1.close();
  if (typeof svg !== "string") throw new Error("not a diagram");
  return picture(svg, fontFile);
}

function pageFont(): string {
  return getComputedStyle(document.body).fontFamily || "sans-serif";
}

/** Resolve the variables in an element: their values depend on the theme. */
function pageColours(): DrawRequest["colours"] {
  const probe = document.createElement("span");
  document.body.append(probe);
  const resolve = (variable: string) => {
    probe.style.color = `var(${variable})`;
    return getComputedStyle(probe).color;
  };
  const entries = Object.entries(COLOURS).map(([part, variable]) => [part, resolve(variable)] as const);
  probe.remove();
  return Object.fromEntries(entries) as DrawRequest["colours"];
}

function openFrame(): Promise<Window> {
  const element = document.createElement("iframe");
  element.setAttribute("sandbox", "allow-scripts");
  element.src = FRAME;
  element.title = "";
  element.setAttribute("aria-hidden", "true");
  element.tabIndex = -1;
  // Must have a layout for measuring, but stays invisible.
  element.className = "pointer-events-none fixed top-0 left-[-4000px] h-[1200px] w-[1600px] opacity-0";
  return new Promise((resolve, reject) => {
    const failed = () => {
      frame = null;
      element.remove();
      reject(new Error("diagrams cannot be drawn"));
    };
    const timer = setTimeout(failed, TIMEOUT_MS);
    window.addEventListener("message", function ready({ source, data }) {
      if (source !== element.contentWindow || data !== "ready to draw" || element.contentWindow === null)
        return;
      clearTimeout(timer);
      window.removeEventListener("message", ready);
      resolve(element.contentWindow);
    });
    document.body.append(element);
  });
}

async function fetchFont(): Promise<ArrayBuffer | null> {
  try {
    const response = await fetch(fontUrl);
    return response.ok ? await response.arrayBuffer() : null;
  } catch {
    font = null; // tried again for the next diagram
    return null;
  }
}

/** Return a style element with the font: images load nothing from outside. */
function fontStyle(file: ArrayBuffer): string {
  const bytes = Array.from(new Uint8Array(file), (byte) => String.fromCharCode(byte)).join("");
  const source = `url(data:font/woff2;base64,${btoa(bytes)}) format("woff2")`;
  return `<style>@font-face{font-family:"Inter";font-weight:100 900;src:${source}}</style>`;
}

function picture(svg: string, fontFile: ArrayBuffer | null): Drawn {
  const box = /viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"/.exec(svg);
  const [width, height] = [Math.ceil(Number(box?.[1] ?? 600)), Math.ceil(Number(box?.[2] ?? 400))];
  // An image needs a size in pixels instead of "100%".
  const sized = svg.replace(/^<svg([^>]*?) width="100%"/, `<svg$1 width="${width}" height="${height}"`);
  const styled = fontFile === null ? sized : sized.replace(/^<svg[^>]*>/, (tag) => tag + fontStyle(fontFile));
  return {
    image: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(styled)}`,
    svg: sized,
    width,
    height,
  };
}
