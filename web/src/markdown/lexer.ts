/** Markdown lexer: GFM with footnotes, and math in dollar signs or LaTeX brackets. */

import { Marked, type Token, type TokenizerAndRendererExtension, type TokenizerThis } from "marked";

export interface MathToken {
  readonly type: "math";
  readonly raw: string;
  readonly text: string;
  /** Display math. */
  readonly block: boolean;
}

export interface FootnoteMark {
  readonly type: "footnoteMark";
  readonly raw: string;
  readonly label: string;
}

export interface Footnote {
  readonly type: "footnote";
  readonly raw: string;
  readonly label: string;
  readonly tokens: Token[];
}

// Not amounts of money: no spaces inside single signs and no digit after the last. Display math may be in a sentence.
const INLINE = new RegExp(
  [
    String.raw`^(?:\$\$(?!\$)([^$\n]+?)\$\$(?!\$)`,
    String.raw`\$(?![\s$])((?:\\.|[^\\\n$])+?)(?<!\s)\$(?!\d)`,
    String.raw`\\\(((?:[^\\\n]|\\[^)\n])+?)\\\)`,
    String.raw`\\\[((?:[^\\\n]|\\[^\]\n])+?)\\\])`,
  ].join("|"),
);
const BLOCK = /^ {0,3}(?:\$\$([^$]+?)\$\$|\\\[((?:[^\\]|\\[^\]])+?)\\\])[ \t]*(?:\n|$)/;

const inlineMath: TokenizerAndRendererExtension = {
  name: "math",
  level: "inline",
  start: (text) => beginning(text, /\$|\\[([]/),
  tokenizer: (text) => mathToken(INLINE.exec(text), false),
};
const blockMath: TokenizerAndRendererExtension = {
  name: "mathBlock",
  level: "block",
  start: (text) => beginning(text, /(?:^|\n) {0,3}(?:\$\$|\\\[)/),
  tokenizer: (text) => mathToken(BLOCK.exec(text), true),
};

const LABEL = String.raw`\[\^([^\]\s^]{1,64})\]`;
const FOOTNOTE_MARK = new RegExp(`^${LABEL}(?!:)`);
// Further lines belong to a note until a blank line; indented paragraphs after it belong to it too.
const FOOTNOTE = new RegExp(
  `^ {0,3}${LABEL}:[ \\t]*(.*(?:\\n(?! {0,3}\\[\\^).*\\S.*)*(?:\\n+ {2,}.+)*)(?:\\n|$)`,
);
const FOOTNOTE_START = new RegExp(`(?:^|\\n) {0,3}${LABEL}:`);

const footnoteMark: TokenizerAndRendererExtension = {
  name: "footnoteMark",
  level: "inline",
  start: (text) => beginning(text, /\[\^/),
  tokenizer(text): FootnoteMark | undefined {
    const found = FOOTNOTE_MARK.exec(text);
    return found === null ? undefined : { type: "footnoteMark", raw: found[0], label: found[1] ?? "" };
  },
};
const footnote: TokenizerAndRendererExtension = {
  name: "footnote",
  level: "block",
  start: (text) => beginning(text, FOOTNOTE_START),
  tokenizer(this: TokenizerThis, text): Footnote | undefined {
    const found = FOOTNOTE.exec(text);
    if (found === null) return undefined;
    const inside = (found[2] ?? "").replace(/\n {2,4}/g, "\n");
    return {
      type: "footnote",
      raw: found[0],
      label: found[1] ?? "",
      tokens: this.lexer.blockTokens(inside, []),
    };
  },
};

const marked = new Marked({ extensions: [blockMath, inlineMath, footnote, footnoteMark] });

export function lexer(text: string): Token[] {
  return marked.lexer(text);
}

function beginning(text: string, mark: RegExp): number | undefined {
  const at = text.search(mark);
  return at < 0 ? undefined : at;
}

function mathToken(found: RegExpExecArray | null, block: boolean): MathToken | undefined {
  if (found === null) return undefined;
  return {
    type: "math",
    raw: found[0],
    text: (found.slice(1).find((text) => text !== undefined) ?? "").trim(),
    block,
  };
}
