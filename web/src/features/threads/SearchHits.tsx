/** Search results in messages. */

import { Link } from "@tanstack/react-router";
import type { SearchHit } from "@/api/search";
import { stripMarks } from "@/api/snippets";
import { useStrings } from "@/i18n/context";
import type { SearchResult } from "@/state/useTextSearch";

export default function SearchHits({ search: { hits, failed } }: { search: SearchResult }) {
  const strings = useStrings();
  if (failed) return <p className="p-2 text-small text-faint">{strings.searchFailed}</p>;
  if (hits.length === 0) return null;
  return (
    <section>
      <h2 className="px-2 pt-3 pb-1 text-small text-faint">{strings.foundInMessages}</h2>
      <ul>
        {hits.map((hit) => (
          <li key={`${hit.thread_id} ${hit.message_id}`}>
            <Link
              to="/threads/$threadId"
              params={{ threadId: hit.thread_id }}
              className="block rounded-box px-2 py-1.5 hover:bg-tint"
            >
              <span className="block truncate">{hit.title ?? strings.untitled}</span>
              <span className="line-clamp-2 text-small text-faint">
                <Snippet hit={hit} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Snippet with highlighted matches. */
function Snippet({ hit }: { hit: SearchHit }) {
  const { snippet, highlights } = stripMarks(hit);
  // Offsets are code points, not UTF-16 units.
  const signs = Array.from(snippet);
  let reached = 0;
  const parts = highlights.map(([from, to]) => {
    const before = signs.slice(reached, from).join("");
    reached = Math.max(reached, to);
    return (
      <span key={from}>
        {before}
        <mark className="bg-transparent font-semibold text-ink">{signs.slice(from, to).join("")}</mark>
      </span>
    );
  });
  return (
    <>
      {parts}
      {signs.slice(reached).join("")}
    </>
  );
}
