/**
 * Renders diagrams inside a sandboxed document without an origin: Mermaid writes style elements, which the CSP of
 * the page forbids.
 */

import mermaid from "mermaid";
import type { DrawRequest } from "@/markdown/drawing";

let drawn = 0;
let loading: Promise<void> | undefined;
// The settings of Mermaid are global: drawings are made one after the other.
let last: Promise<unknown> = Promise.resolve();

window.addEventListener("message", ({ data, source, ports }) => {
  if (source !== window.parent || typeof data?.source !== "string") return;
  last = last.then(async () => ports[0]?.postMessage(await draw(data as DrawRequest)));
});

async function draw({ source, dark, font, fontFile, colours }: DrawRequest): Promise<object> {
  if (fontFile !== null) loading ??= loadFont(fontFile);
  await loading;
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: "strict",
    htmlLabels: false,
    flowchart: { htmlLabels: false },
    suppressErrorRendering: true,
    theme: "base",
    fontFamily: font,
    themeVariables: {
      darkMode: dark,
      fontFamily: font,
      fontSize: "14px",
      background: colours.paper,
      primaryColor: colours.node,
      primaryTextColor: colours.ink,
      primaryBorderColor: colours.border,
      secondaryColor: colours.group,
      tertiaryColor: colours.group,
      tertiaryBorderColor: colours.border,
      lineColor: colours.soft,
      textColor: colours.ink,
      edgeLabelBackground: colours.paper,
      noteBkgColor: colours.note,
      noteTextColor: colours.ink,
      noteBorderColor: colours.border,
    },
  });
  try {
    const { svg } = await mermaid.render(`diagram-${++drawn}`, source);
    return { svg };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** Make the font of the page known, because the texts are measured with it. Without it, another one is used. */
async function loadFont(file: ArrayBuffer): Promise<void> {
  const face = new FontFace("Inter", file, { weight: "100 900" });
  await face.load().then(
    (loaded) => document.fonts.add(loaded),
    () => undefined,
  );
}

window.parent.postMessage("ready to draw", "*");
