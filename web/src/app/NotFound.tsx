/** Page for unknown URLs. */

import { Link } from "@tanstack/react-router";
import { useStrings } from "@/i18n/context";
import { PageFrame } from "@/layout/PageFrame";
import { buttonLook } from "@/ui/Button";
import { EmptyState } from "@/ui/states";

export function NotFound() {
  const strings = useStrings();
  return (
    <PageFrame title={strings.notFound}>
      <EmptyState text={strings.notFoundHint}>
        <Link to="/" className={buttonLook()}>
          {strings.newThread}
        </Link>
      </EmptyState>
    </PageFrame>
  );
}
