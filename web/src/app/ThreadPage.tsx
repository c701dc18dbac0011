/** A conversation with the side panel. */

import { lazy, Suspense } from "react";
import { ConfigBanner } from "@/app/ConfigBanner";
import { Header, useOpenTitle } from "@/app/Header";
import { SandboxBanner } from "@/app/SandboxBanner";
import { type FileActions, FileActionsProvider } from "@/features/chat/message/FileActions";
import { ThreadView } from "@/features/chat/ThreadView";
import { OpenInPanel } from "@/features/panel/OpenInPanel";
import { useFileRefresh } from "@/features/panel/useFileRefresh";
import { InstallFromThread } from "@/features/skills/InstallFromThread";
import { useTitle } from "@/layout/useTitle";
import { isActive } from "@/run/reduce";
import { usePage } from "@/state/context";
import { useThreads } from "@/state/threadList";
import { usePanel } from "@/state/usePanel";

const FILE_ACTIONS: FileActions = { OpenFile: OpenInPanel, InstallSkill: InstallFromThread };
const Panel = lazy(() => import("@/features/panel/Panel"));

/** "(1) " if threads wait for the user, "● " while the open thread is answered. */
function useTitleMark(): string {
  const threads = useThreads();
  const running = usePage(({ conversation }) => isActive(conversation.run));
  const waiting =
    threads.phase === "ready" ? threads.value.filter(({ waitsFor }) => waitsFor !== null).length : 0;
  if (waiting > 0) return `(${waiting}) `;
  return running ? "● " : "";
}

export function ThreadPage() {
  const { tab } = usePanel();
  useFileRefresh();
  useTitle(useOpenTitle(), useTitleMark());
  return (
    <div className="flex min-h-0 flex-1">
      <div className="flex min-w-0 flex-1 flex-col">
        <Header />
        <ConfigBanner />
        <SandboxBanner />
        <FileActionsProvider actions={FILE_ACTIONS}>
          <ThreadView />
        </FileActionsProvider>
      </div>
      {tab !== null && (
        <Suspense>
          <Panel />
        </Suspense>
      )}
    </div>
  );
}
