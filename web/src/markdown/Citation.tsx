/** A citation chip for `[citation:Title](url)` with a preview on hover and focus. */

import { ExternalLink } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useFileUrls } from "@/ui/FileUrls";

export const CITATION = /^citation:\s*/i;

export function Citation({ title, href }: { title: string; href: string }) {
  const { webPage } = useFileUrls();
  const strings = useStrings();
  const site = siteOf(href);
  if (site === null) return <span className="citation">{title}</span>;
  return (
    <span className="citation-place">
      <a className="citation" href={href} target="_blank" rel="noopener noreferrer">
        {title || site}
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

function siteOf(href: string): string | null {
  const address = URL.canParse(href) ? new URL(href) : null;
  const isWeb = address?.protocol === "https:" || address?.protocol === "http:";
  return isWeb ? (address?.hostname.replace(/^www\./, "") ?? null) : null;
}
