/** Diagrams that were drawn; what draws them is loaded with the first. */

export interface Drawn {
  /** Data URL of the image; nothing in it can run. */
  readonly image: string;
  readonly svg: string;
  readonly width: number;
  readonly height: number;
}

// A scrolled list creates its diagrams again: drawings are kept, so that their height is known at once.
const KEPT = 50;
const kept = new Map<string, Drawn>();

/** Return a drawing that was made before. */
export function knownDiagram(source: string, dark: boolean): Drawn | null {
  return kept.get(`${dark}:${source}`) ?? null;
}

/** Draw a diagram in the colours of the page. Rejects for an invalid diagram. */
export async function drawDiagram(source: string, dark: boolean): Promise<Drawn> {
  const known = knownDiagram(source, dark);
  if (known !== null) return known;
  const { draw } = await import("@/markdown/drawing");
  const drawn = await draw(source, dark);
  const [oldest] = kept.keys();
  if (kept.size >= KEPT && oldest !== undefined) kept.delete(oldest);
  kept.set(`${dark}:${source}`, drawn);
  return drawn;
}
