/**
 * Renders diagrams inside a sandboxed document without an origin: Mermaid writes style elements, which the CSP of
 * the page forbids.
 */

import mermaid from "mermaid";

mermaid.initialize({
  startOnLoad: false,
  securityLevel: "strict",
  htmlLabels: false,
  flowchart: { htmlLabels: false },
  suppressErrorRendering: true,
  theme: "neutral",
  fontFamily: "sans-serif",
});

let drawn = 0;

window.addEventListener("message", async ({ data, source, ports }) => {
  if (source !== window.parent || typeof data !== "string") return;
  const answer = (message: unknown) => ports[0]?.postMessage(message);
  try {
    const { svg } = await mermaid.render(`diagram-${++drawn}`, data);
    answer({ svg });
  } catch (error) {
    answer({ problem: error instanceof Error ? error.message : String(error) });
  }
});

window.parent.postMessage("ready to draw", "*");
