/** A formula as MathML; KaTeX is loaded on first use. */

import { createElement, Fragment, memo, type ReactNode, useEffect, useState } from "react";

interface Props {
  readonly source: string;
  readonly block: boolean;
  readonly settled: boolean;
}

export const Formula = memo(function Formula({ source, block, settled }: Props) {
  const drawn = useFormula(source, block, settled);
  const Frame = block ? "div" : "span";
  // Shows the source until it is rendered or if it is invalid.
  return (
    <Frame className={block ? "formula-frame" : undefined} data-formula>
      {drawn ?? <code>{source}</code>}
    </Frame>
  );
});

// Longer formulas would block the page.
const LONGEST = 5000;

function useFormula(source: string, block: boolean, settled: boolean): ReactNode | null {
  const [drawn, setDrawn] = useState<{ readonly source: string; readonly node: ReactNode } | null>(null);
  useEffect(() => {
    if (!settled || source.length > LONGEST) return;
    let wanted = true;
    draw(source, block).then(
      (node) => wanted && setDrawn({ source, node }),
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [source, block, settled]);
  return drawn?.source === source ? drawn.node : null;
}

/** Resolves to null for an invalid formula. */
async function draw(source: string, block: boolean): Promise<ReactNode | null> {
  const { default: katex } = await import("katex");
  const options = { output: "mathml", displayMode: block, throwOnError: true, trust: false } as const;
  const text = katex.renderToString(source, { ...options, strict: false, maxExpand: 200, maxSize: 20 });
  const math = new DOMParser().parseFromString(text, "text/html").querySelector("math");
  return math === null ? null : elementOf(math, 0);
}

// Allowed MathML elements; others keep only their text.
const TAGS: ReadonlySet<string> = new Set(
  "math semantics mrow mi mn mo ms mtext mspace msup msub msubsup mfrac msqrt mroot mover munder munderover mtable mtr mtd mlabeledtr mpadded mphantom mstyle menclose".split(
    " ",
  ),
);
const ATTRIBUTES = ["display", "mathvariant", "stretchy", "fence", "separator", "accent", "columnalign"];
const MORE_ATTRIBUTES = [
  "lspace",
  "rspace",
  "width",
  "height",
  "depth",
  "linethickness",
  "minsize",
  "maxsize",
];

/** Convert a node to React, with allowed elements and attributes only. */
function elementOf(node: Element, place: number): ReactNode {
  const name = node.localName;
  if (name === "annotation") return null;
  const children = [...node.childNodes].map((child, index) =>
    child instanceof Element ? elementOf(child, index) : child.textContent,
  );
  if (!TAGS.has(name)) return createElement(Fragment, { key: place }, ...children);
  const given = [...ATTRIBUTES, ...MORE_ATTRIBUTES].flatMap((key) => {
    const value = node.getAttribute(key);
    return value === null ? [] : [[key, value] as const];
  });
  return createElement(name, { key: place, ...Object.fromEntries(given) }, ...children);
}
