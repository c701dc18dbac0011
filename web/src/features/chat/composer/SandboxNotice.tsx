/** Notice that commands are off, or that their packages are being installed, loaded where it is shown. */

import { lazy, Suspense } from "react";
import { useSandbox } from "@/state/sandbox";

const SandboxLines = lazy(async () => ({ default: (await import("@/layout/SandboxStatus")).SandboxLines }));

export function SandboxNotice() {
  const sandbox = useSandbox();
  if (sandbox === null) return null;
  const { tier, toolbox } = sandbox;
  if (tier !== "none" && toolbox?.status !== "building" && toolbox?.status !== "failed") return null;
  return (
    <Suspense>
      <SandboxLines sandbox={sandbox} />
    </Suspense>
  );
}
