/** Links and images; nothing external is loaded. */

import { Image } from "lucide-react";
import type { ReactNode } from "react";
import { useStrings } from "@/i18n/context";
import { useFileUrls } from "@/ui/FileUrls";

const OUTSIDE = /^(https?:|mailto:)/i;
// An image in the thread's folders.
const OWN_FILE = /^\/?mnt\/user-data\/[^?#]+\.(png|jpe?g|gif|webp)$/i;
const INLINE_IMAGE = /^data:image\/(png|jpeg|gif|webp);/i;

export function Link({ href, children }: { href: string; children: ReactNode }) {
  if (!OUTSIDE.test(href)) return <span title={href}>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

export function ImageLink({ source, description }: { source: string; description: string }) {
  const strings = useStrings();
  const urls = useFileUrls();
  if (INLINE_IMAGE.test(source)) return <img src={source} alt={description} />;
  if (OWN_FILE.test(source)) {
    const address = urls.artifact(source.replace(/^\/?/, "/"));
    return (
      <a href={address} target="_blank" rel="noreferrer" className="own-image">
        <img src={address} alt={description} loading="lazy" />
      </a>
    );
  }
  return (
    <Link href={source}>
      <Image aria-hidden className="mr-1 inline size-4 align-[-2px]" />
      {strings.imageLink(description || source)}
    </Link>
  );
}
