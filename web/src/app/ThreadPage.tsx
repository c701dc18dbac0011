/** A conversation with the side panel. */

import { lazy, Suspense } from "react";
import { ConfigBanner } from "@/app/ConfigBanner";
import { Header, useOpenTitle } from "@/app/Header";
import { SandboxBanner } from "@/app/SandboxBanner";
import { type FileActions, FileActionsProvider } from "@/features/chat/message/FileActions";
import { ThreadView } from "@/features/chat/ThreadView";
import { ChangedFiles } from "@/features/panel/ChangedFiles";
import { OpenInPanel } from "@/features/panel/OpenInPanel";
import { useFileRefresh } from "@/features/panel/useFileRefresh";
import { InstallFromThread } from "@/features/skills/InstallFromThread";
import { useTitle } from "@/layout/useTitle";
import { useAutoOpenPanel, usePanel } from "@/state/usePanel";
import { useTitleMark } from "@/state/useTitleMark";

const FILE_ACTIONS: FileActions = { OpenFile: OpenInPanel, InstallSkill: InstallFromThread, ChangedFiles };
const Panel = lazy(() => import("@/features/panel/Panel"));

export function ThreadPage() {
  const { tab } = usePanel();
  useFileRefresh();
  useAutoOpenPanel();
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
