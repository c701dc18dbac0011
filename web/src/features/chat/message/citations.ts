/** Sources that an answer cites. */

import { isRecord, parseJson } from "@/api/json";
import type { SourceState } from "@/i18n/answers";
import type { Message } from "@/run/message";

export interface Source {
  readonly number: number;
  readonly url: string;
  readonly site: string;
  readonly title: string;
  /** Texts before the citations of a passage of a project file. */
  readonly claims: readonly string[];
}

const CITED = /\[citation:\s*([^\]]*)\]\(((?:https?:\/\/|\/projects\/)[^\s)]+)\)/gi;
const CODE = /(```|~~~)[\s\S]*?(?:\1|$)|`[^`\n]*`/g;

/** Return the cited pages of a text, numbered by their first citation. */
export function sourcesOf(text: string): readonly Source[] {
  if (!/\[citation:/i.test(text)) return NONE;
  const found = new Map<string, Source>();
  const plain = text.replace(CODE, "");
  let end = 0;
  for (const match of plain.matchAll(CITED)) {
    const [whole, title = "", url = ""] = match;
    const claim = plain.slice(end, match.index);
    end = match.index + whole.length;
    const isPassage = url.startsWith("/");
    const known = found.get(url);
    if (known !== undefined && isPassage) found.set(url, { ...known, claims: [...known.claims, claim] });
    if (known !== undefined || !(isPassage || URL.canParse(url))) continue;
    const site = isPassage ? "" : new URL(url).hostname.replace(/^www\./, "");
    const number = found.size + 1;
    found.set(url, { number, url, site, title: title.trim() || site, claims: isPassage ? [claim] : [] });
  }
  return [...found.values()];
}

const NONE: readonly Source[] = [];

// The worst finding of a page counts.
const ORDER: readonly SourceState[] = [
  "verified",
  "never_fetched",
  "dead",
  "number_mismatch",
  "quote_missing",
];

/** Return the state of each page by the latest check that mentions it. */
export function checkedStates(messages: Iterable<Message>): ReadonlyMap<string, SourceState> {
  const states = new Map<string, SourceState>();
  for (const { toolName, text, failed } of messages) {
    if (toolName !== "verify_citations" || failed) continue;
    const report = parseJson(text);
    const results = isRecord(report) && Array.isArray(report.results) ? report.results : [];
    const latest = new Map<string, SourceState>();
    for (const { url, status } of results.filter(isRecord)) {
      const state = ORDER.find((each) => each === status);
      if (typeof url !== "string" || state === undefined) continue;
      const known = latest.get(url);
      if (known === undefined || ORDER.indexOf(state) > ORDER.indexOf(known)) latest.set(url, state);
    }
    for (const [url, state] of latest) states.set(url, state);
  }
  return states;
}
