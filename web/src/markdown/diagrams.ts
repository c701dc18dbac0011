/** Has diagrams drawn by a frame, which is made when the first diagram needs it. */

const FRAME = "/diagram.html";
const PATIENCE_MS = 20_000;
// Longer ones would keep the frame busy for minutes.
const LONGEST = 20_000;

export interface Drawn {
  /** The picture as the address of an image, in which nothing runs. */
  readonly image: string;
  readonly width: number;
  readonly height: number;
}

let frame: Promise<Window> | null = null;

/** Rejects where the source is no diagram. */
export async function drawDiagram(source: string): Promise<Drawn> {
  if (source.length > LONGEST) throw new Error("the diagram is too long");
  frame ??= openFrame();
  const window = await frame;
  const { port1, port2 } = new MessageChannel();
  const answer = new Promise<unknown>((resolve, reject) => {
    port1.onmessage = ({ data }) => resolve(data);
    setTimeout(() => reject(new Error("the diagram took too long")), PATIENCE_MS);
  });
  window.postMessage(source, "*", [port2]);
  const { svg } = (await answer) as { readonly svg?: unknown };
  port1.close();
  if (typeof svg !== "string") throw new Error("not a diagram");
  return picture(svg);
}

function openFrame(): Promise<Window> {
  const element = document.createElement("iframe");
  element.setAttribute("sandbox", "allow-scripts");
  element.src = FRAME;
  element.title = "";
  element.setAttribute("aria-hidden", "true");
  element.tabIndex = -1;
  // Laid out, for what is drawn is measured, but never seen.
  element.className = "pointer-events-none fixed top-0 left-[-4000px] h-[1200px] w-[1600px] opacity-0";
  return new Promise((resolve, reject) => {
    const failed = () => {
      frame = null;
      element.remove();
      reject(new Error("diagrams cannot be drawn"));
    };
    const timer = setTimeout(failed, PATIENCE_MS);
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

function picture(svg: string): Drawn {
  const box = /viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"/.exec(svg);
  const [width, height] = [Math.ceil(Number(box?.[1] ?? 600)), Math.ceil(Number(box?.[2] ?? 400))];
  // "100%" means nothing to an image.
  const sized = svg.replace(/^<svg([^>]*?) width="100%"/, `<svg$1 width="${width}" height="${height}"`);
  return { image: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(sized)}`, width, height };
}
