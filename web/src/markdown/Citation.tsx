/** A source of what is said: `[citation:Title](address)` as a chip, with where it leads on hover and focus. */

import { ExternalLink } from "lucide-react";

export const CITATION = /^citation:\s*/i;

export function Citation({ title, href }: { title: string; href: string }) {
  const site = siteOf(href);
  if (site === null) return <span className="citation">{title}</span>;
  return (
    <span className="citation-place">
      <a className="citation" href={href} target="_blank" rel="noopener noreferrer">
        {title || site}
      </a>
      <span aria-hidden className="citation-preview">
        <span className="citation-title">{title || site}</span>
        <span className="citation-site">
          <ExternalLink aria-hidden className="size-3.5" />
          {site}
        </span>
        <span className="citation-address">{href}</span>
      </span>
    </span>
  );
}

function siteOf(href: string): string | null {
  const address = URL.canParse(href) ? new URL(href) : null;
  const isWeb = address?.protocol === "https:" || address?.protocol === "http:";
  return isWeb ? (address?.hostname.replace(/^www\./, "") ?? null) : null;
}
