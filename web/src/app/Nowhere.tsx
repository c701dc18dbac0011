/** An address that leads nowhere. */

import { Link } from "@tanstack/react-router";
import { useWords } from "@/app/context";
import { PageFrame } from "@/app/PageFrame";

export function Nowhere() {
  const words = useWords();
  return (
    <PageFrame title={words.nowhere}>
      <p className="text-prose text-soft">{words.nowhereHint}</p>
      <Link to="/" className="mt-3 inline-block text-accent underline underline-offset-4">
        {words.newThread}
      </Link>
    </PageFrame>
  );
}
