/** Code highlighting, loaded on first use. */

import type { RootContent } from "hast";

export type Coloured = string | { readonly className: string; readonly children: readonly Coloured[] };

// Longer code is not highlighted because it would block the page.
const LONGEST = 50_000;

/** Return highlighted tokens, null for an unknown language. */
export async function highlight(code: string, language: string): Promise<readonly Coloured[] | null> {
  if (code.length > LONGEST) return null;
  const { languages } = await import("@/markdown/languages");
  if (!languages.registered(language)) return null;
  return languages.highlight(language, code).children.map(coloured);
}

function coloured(node: RootContent): Coloured {
  if (node.type === "text") return node.value;
  if (node.type !== "element") return "";
  const names = node.properties.className;
  return { className: Array.isArray(names) ? names.join(" ") : "", children: node.children.map(coloured) };
}
