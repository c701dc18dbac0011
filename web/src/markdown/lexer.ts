/** Markdown lexer: GFM with math in dollar signs or LaTeX brackets. */

import { Marked, type Token, type TokenizerAndRendererExtension } from "marked";

export interface MathToken {
  readonly type: "math";
  readonly raw: string;
  readonly text: string;
  /** Display math. */
  readonly block: boolean;
}

// Not amounts of money: no spaces inside the signs and no digit after the last.
const INLINE = /^(?:\$(?![\s$])((?:\\.|[^\\\n$])+?)(?<!\s)\$(?!\d)|\\\(((?:[^\\\n]|\\[^)\n])+?)\\\))/;
const BLOCK = /^ {0,3}(?:\$\$([^$]+?)\$\$|\\\[((?:[^\\]|\\[^\]])+?)\\\])[ \t]*(?:\n|$)/;

const inlineMath: TokenizerAndRendererExtension = {
  name: "math",
  level: "inline",
  start: (text) => beginning(text, /\$|\\\(/),
  tokenizer: (text) => mathToken(INLINE.exec(text), false),
};
const blockMath: TokenizerAndRendererExtension = {
  name: "mathBlock",
  level: "block",
  start: (text) => beginning(text, /(?:^|\n) {0,3}(?:\$\$|\\\[)/),
  tokenizer: (text) => mathToken(BLOCK.exec(text), true),
};

const marked = new Marked({ extensions: [blockMath, inlineMath] });

export function lexer(text: string): Token[] {
  return marked.lexer(text);
}

function beginning(text: string, mark: RegExp): number | undefined {
  const at = text.search(mark);
  return at < 0 ? undefined : at;
}

function mathToken(found: RegExpExecArray | null, block: boolean): MathToken | undefined {
  if (found === null) return undefined;
  return { type: "math", raw: found[0], text: (found[1] ?? found[2] ?? "").trim(), block };
}
