/** An address that leads nowhere. */

import { Link } from "@tanstack/react-router";
import { useStrings } from "@/app/context";
import { PageFrame } from "@/app/PageFrame";

export function Nowhere() {
  const strings = useStrings();
  return (
    <PageFrame title={strings.nowhere}>
      <p className="text-prose text-soft">{strings.nowhereHint}</p>
      <Link to="/" className="mt-3 inline-block text-accent underline underline-offset-4">
        {strings.newThread}
      </Link>
    </PageFrame>
  );
}
