/** Cited passages of project files, compared with what the search returned. */

import type { Source } from "@/features/chat/message/citations";
import type { SourceState } from "@/i18n/answers";
import type { Message } from "@/run/message";

const FOUND = /^\[citation:[^\]]*\]\((\/projects\/[^\s)]+)\) passage \d+(?:, under .*)?\n/gm;

/** Return the passages that searches of the thread have returned, by their URL. */
export function foundPassages(messages: Iterable<Message>): ReadonlyMap<string, string> {
  const passages = new Map<string, string>();
  for (const { toolName, text, failed } of messages) {
    if (toolName !== "search_knowledge" || failed) continue;
    const heads = [...text.matchAll(FOUND)];
    for (const [at, head] of heads.entries()) {
      passages.set(head[1] ?? "", text.slice(head.index + head[0].length, heads[at + 1]?.index));
    }
  }
  return passages;
}

const NUMBER = /\d[\d.,]*\d|\d/g;
const QUOTE = /[“"„「]([^”"“」\n]{4,})[”"“」]/g;

/** Return whether the numbers and quotes of the claims are in the passage. */
export function passageState(source: Source, passages: ReadonlyMap<string, string>): SourceState {
  const passage = passages.get(source.url);
  if (passage === undefined) return "not_found";
  const text = normalize(passage);
  const claims = source.claims.map((claim) => lastSentence(claim));
  const quotes = claims.flatMap((claim) => [...claim.matchAll(QUOTE)].map(([, quote = ""]) => quote));
  if (quotes.some((quote) => !text.includes(normalize(quote)))) return "quote_missing";
  const numbers = claims.flatMap((claim) => claim.match(NUMBER) ?? []);
  const known = new Set(text.match(NUMBER));
  if (numbers.some((number) => !known.has(number))) return "number_mismatch";
  return quotes.length + numbers.length > 0 ? "verified" : "found";
}

/** Return the sentence that ends at the citation. */
function lastSentence(claim: string): string {
  const sentences = claim.trim().split(/(?<=[.!?])\s+|(?<=[。！？])|\n/);
  return sentences.at(-1) ?? "";
}

function normalize(text: string): string {
  return text.replace(/\s+/g, " ").toLowerCase();
}
