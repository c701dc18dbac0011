/** Plain text of search results. */

import type { SearchHit } from "@/api/search";

/** Marks of Markdown: emphasis, code, headings, quotes, and links with their addresses. */
const MARKS = /\*\*|__|~~|`+|(?<=^|\n)(?:#{1,6}|>) |!?\[(?=[^\]\n]*\]\()|\]\([^)\s]*\)/g;

/** Return a hit whose snippet is plain text. Marks that are part of a match stay. */
export function stripMarks(hit: SearchHit): SearchHit {
  // Offsets of matches are code points, not UTF-16 units.
  const characters = Array.from(hit.snippet);
  const dropped = new Set<number>();
  for (const mark of hit.snippet.matchAll(MARKS)) {
    const from = Array.from(hit.snippet.slice(0, mark.index)).length;
    const to = from + Array.from(mark[0]).length;
    if (hit.highlights.some(([start, end]) => start < to && from < end)) continue;
    for (let at = from; at < to; at++) dropped.add(at);
  }
  const moved = (at: number) => at - [...dropped].filter((each) => each < at).length;
  return {
    ...hit,
    snippet: characters.filter((_, at) => !dropped.has(at)).join(""),
    highlights: hit.highlights.map(([start, end]) => [moved(start), moved(end)]),
  };
}
