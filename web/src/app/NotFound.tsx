/** Page for unknown URLs. */

import { Link } from "@tanstack/react-router";
import { useStrings } from "@/i18n/context";
import { PageFrame } from "@/layout/PageFrame";

export function NotFound() {
  const strings = useStrings();
  return (
    <PageFrame title={strings.notFound}>
      <p className="text-prose text-soft">{strings.notFoundHint}</p>
      <Link to="/" className="mt-3 inline-block text-accent underline underline-offset-4">
        {strings.newThread}
      </Link>
    </PageFrame>
  );
}
