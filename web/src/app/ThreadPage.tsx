/** A conversation with the side panel. */

import { lazy, Suspense } from "react";
import { usePage } from "@/app/context";
import { Header, threadTitle } from "@/app/Header";
import { useTitle } from "@/app/useTitle";
import { ThreadView } from "@/features/chat/ThreadView";
import { useFileRefresh } from "@/features/panel/useFileRefresh";
import { usePanel } from "@/features/panel/usePanel";
import { SandboxBanner } from "@/features/sandbox/SandboxBanner";

const Panel = lazy(() => import("@/features/panel/Panel"));

export function ThreadPage() {
  const { tab } = usePanel();
  useFileRefresh();
  useTitle(usePage(threadTitle));
  return (
    <div className="flex min-h-0 flex-1">
      <div className="flex min-w-0 flex-1 flex-col">
        <Header />
        <SandboxBanner />
        <ThreadView />
      </div>
      {tab !== null && (
        <Suspense>
          <Panel />
        </Suspense>
      )}
    </div>
  );
}
