/** Warning that commands run without isolation, loaded where it is shown. */

import { lazy, Suspense } from "react";
import { useSandbox } from "@/state/sandbox";

const HostWarning = lazy(async () => ({ default: (await import("@/layout/SandboxStatus")).HostWarning }));

export function SandboxBanner() {
  const sandbox = useSandbox();
  if (sandbox?.tier !== "host") return null;
  return (
    <Suspense>
      <HostWarning sandbox={sandbox} />
    </Suspense>
  );
}
