/** Links and images in an answer: nothing is fetched from outside, nothing runs. */

import { Image } from "lucide-react";
import type { ReactNode } from "react";
import { useWords } from "@/app/context";

const OUTSIDE = /^(https?:|mailto:)/i;
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
  const words = useWords();
  if (INLINE_IMAGE.test(source)) return <img src={source} alt={description} />;
  return (
    <Link href={source}>
      <Image aria-hidden className="mr-1 inline size-4 align-[-2px]" />
      {words.imageLink(description || source)}
    </Link>
  );
}
