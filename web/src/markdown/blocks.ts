/** Growing Markdown, split so that a finished block is never parsed again. */

import type { Token } from "marked";
import { lexer } from "@/markdown/lexer";
import { tidyOpenEnd } from "@/markdown/tidy";

export interface Block {
  /** Where it begins in the text; stays the same while the text grows. */
  readonly start: number;
  readonly tokens: readonly Token[];
}

export interface Split {
  readonly text: string;
  readonly finished: readonly Block[];
  /** Where the last block begins, which more text may still change. */
  readonly openAt: number;
}

export const EMPTY_SPLIT: Split = { text: "", finished: [], openAt: 0 };

/** The blocks of `text`, reusing those of `previous` when `text` continues it. */
export function splitBlocks(previous: Split, text: string): Split {
  if (text === previous.text) return previous;
  const known = text.startsWith(previous.text) ? previous : EMPTY_SPLIT;
  // Only whole lines decide: "2" may yet become "2. second" and belong to the list before it.
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

/** The end of a text that still grows: half-written marks are completed or held back, so that nothing flickers. */
export function openBlock({ text, openAt }: Split): Block {
  const tokens = lexer(text.slice(openAt));
  const last = tokens.at(-1);
  if (last === undefined || last.type === "code") return { start: openAt, tokens };
  const tidied = tidyOpenEnd(last.raw);
  if (tidied === last.raw) return { start: openAt, tokens };
  return { start: openAt, tokens: lexer(text.slice(openAt, text.length - last.raw.length) + tidied) };
}

/** All blocks of a text that no longer grows, reusing the finished ones. */
export function allBlocks(previous: Split, text: string): readonly Block[] {
  // References may be defined after their use, so a text that has some is read as one.
  if (DEFINITION.test(text)) return [{ start: 0, tokens: lexer(text) }];
  const { finished, openAt } = splitBlocks(previous, text);
  return [...finished, { start: openAt, tokens: lexer(text.slice(openAt)) }];
}

/** Makes all line ends one, so that lengths of parsed pieces add up to places in the text. */
export function normaliseLines(text: string): string {
  return text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
}

const DEFINITION = /^ {0,3}\[[^\]]+\]:\s*\S/m;
