/** A citation chip for `[citation:Title](url)`: site and number, with a preview on hover and focus. */

import { ExternalLink } from "lucide-react";
import { createContext, use } from "react";
import { useStrings } from "@/i18n/context";
import { useFileUrls } from "@/ui/FileUrls";

export const CITATION = /^citation:\s*/i;

/** Numbers of the cited pages of one text, in the order in which they are first rendered. */
export const CitationNumbers = createContext<Map<string, number>>(new Map());

export function Citation({ title, href }: { title: string; href: string }) {
  const { webPage } = useFileUrls();
  const strings = useStrings();
  const site = siteOf(href);
  const number = useNumber(href);
  if (isPassage(href)) {
    return (
      <a className="citation" href={href} target="_blank" rel="noopener">
        {title}
      </a>
    );
  }
  if (site === null) return <span className="citation">{title}</span>;
  return (
    <span className="citation-place">
      <a
        className="citation"
        href={href}
        target="_blank"
        rel="noopener noreferrer"
        aria-label={`${title || site}, ${site} ${number}`}
      >
        {site} <span className="citation-number">{number}</span>
      </a>
      <span className="citation-preview">
        <span aria-hidden className="citation-title">
          {title || site}
        </span>
        <span aria-hidden className="citation-site">
          <ExternalLink aria-hidden className="size-3.5" />
          {site}
        </span>
        <span aria-hidden className="citation-address">
          {href}
        </span>
        {webPage !== undefined && (
          <a href={webPage(href)} target="_blank" rel="noopener noreferrer">
            {strings.savedCopy}
          </a>
        )}
      </span>
    </span>
  );
}

/** Texts only grow, so a page keeps its number. */
function useNumber(href: string): number {
  const numbers = use(CitationNumbers);
  const number = numbers.get(href) ?? numbers.size + 1;
  numbers.set(href, number);
  return number;
}

/** Passage of a project file, as `search_knowledge` names it. */
function isPassage(href: string): boolean {
  return /^\/projects\/[\w-]+\/files\/[\w-]+\?passage=\d+$/.test(href);
}

function siteOf(href: string): string | null {
  const address = URL.canParse(href) ? new URL(href) : null;
  const isWeb = address?.protocol === "https:" || address?.protocol === "http:";
  return isWeb ? (address?.hostname.replace(/^www\./, "") ?? null) : null;
}
