/** Splits streaming Markdown so that finished blocks are never parsed again. */

import type { Token } from "marked";
import { lexer } from "@/markdown/lexer";
import { tidyOpenEnd } from "@/markdown/tidy";

export interface Block {
  /** Start offset; stable while the text grows. */
  readonly start: number;
  readonly tokens: readonly Token[];
}

export interface Split {
  readonly text: string;
  readonly finished: readonly Block[];
  /** Start of the last block, which may still change. */
  readonly openAt: number;
}

export const EMPTY_SPLIT: Split = { text: "", finished: [], openAt: 0 };

/** Split `text`, reusing the blocks of `previous` if `text` continues it. */
export function splitBlocks(previous: Split, text: string): Split {
  if (text === previous.text) return previous;
  const known = text.startsWith(previous.text) ? previous : EMPTY_SPLIT;
  // Only complete lines are split: "2" may become "2. second" of the list before.
  const decidedTo = text.lastIndexOf("\n") + 1;
  if (decidedTo <= known.text.length) return { ...known, text };

  const tokens = lexer(text.slice(known.openAt, decidedTo));
  const lastAt = tokens.findLastIndex((token) => token.type !== "space");
  const finished = [...known.finished];
  let openAt = known.openAt;
  for (const token of tokens.slice(0, Math.max(lastAt, 0))) {
    if (token.type !== "space") finished.push({ start: openAt, tokens: [token] });
    openAt += token.raw.length;
  }
  return { text, finished, openAt };
}

/** Return the last block with incomplete marks closed or held back to avoid flicker. */
export function openBlock({ text, openAt }: Split): Block {
  const tokens = lexer(text.slice(openAt));
  const last = tokens.at(-1);
  if (last === undefined || last.type === "code") return { start: openAt, tokens };
  const tidied = tidyOpenEnd(last.raw);
  if (tidied === last.raw) return { start: openAt, tokens };
  return { start: openAt, tokens: lexer(text.slice(openAt, text.length - last.raw.length) + tidied) };
}

/** Return all blocks of a complete text, reusing finished ones. */
export function allBlocks(previous: Split, text: string): readonly Block[] {
  // Reference definitions may follow their use, so such a text is parsed as a whole.
  if (DEFINITION.test(text)) return [{ start: 0, tokens: lexer(text) }];
  const { finished, openAt } = splitBlocks(previous, text);
  return [...finished, { start: openAt, tokens: lexer(text.slice(openAt)) }];
}

/** Normalize line ends so that token lengths match offsets. */
export function normaliseLines(text: string): string {
  return text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
}

const DEFINITION = /^ {0,3}\[(?!\^)[^\]]+\]:\s*\S/m;
