/** Renders diagrams in an iframe created on first use. */

const FRAME = "/diagram.html";
const TIMEOUT_MS = 20_000;
// Longer diagrams would block the frame.
const LONGEST = 20_000;

export interface Drawn {
  /** Data URL of the image; nothing in it can run. */
  readonly image: string;
  readonly width: number;
  readonly height: number;
}

let frame: Promise<Window> | null = null;

/** Rejects for an invalid diagram. */
export async function drawDiagram(source: string): Promise<Drawn> {
  if (source.length > LONGEST) throw new Error("the diagram is too long");
  frame ??= openFrame();
  const window = await frame;
  const { port1, port2 } = new MessageChannel();
  const answer = new Promise<unknown>((resolve, reject) => {
    port1.onmessage = ({ data }) => resolve(data);
    setTimeout(() => reject(new Error("the diagram took too long")), TIMEOUT_MS);
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

function picture(svg: string): Drawn {
  const box = /viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"/.exec(svg);
  const [width, height] = [Math.ceil(Number(box?.[1] ?? 600)), Math.ceil(Number(box?.[2] ?? 400))];
  // An image needs a size in pixels instead of "100%".
  const sized = svg.replace(/^<svg([^>]*?) width="100%"/, `<svg$1 width="${width}" height="${height}"`);
  return { image: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(sized)}`, width, height };
}
