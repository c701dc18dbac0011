/** Side panel: artifacts, files, run. */

import * as Tabs from "@radix-ui/react-tabs";
import { X } from "lucide-react";
import { useEffect, useRef } from "react";
import { Artifacts } from "@/features/panel/Artifacts";
import { FileChanges } from "@/features/panel/FileChanges";
import { Files } from "@/features/panel/Files";
import { Resizer } from "@/features/panel/Resizer";
import { RunTimeline } from "@/features/panel/RunTimeline";
import { useStrings } from "@/i18n/context";
import { usePage } from "@/state/context";
import { isTab, PANEL_TABS, type PanelTab } from "@/state/panelSearch";
import { useOpenPanel, usePanel } from "@/state/usePanel";
import { IconButton } from "@/ui/IconButton";

export default function Panel() {
  const { tab, isSheet } = usePanel();
  const threadId = usePage((page) => page.threadId);
  const width = usePage((page) => page.preferences.panelWidth);
  const strings = useStrings();
  if (threadId === null) return null;
  if (isSheet) return <Sheet tab={tab} threadId={threadId} />;
  if (tab === null) return null;
  return (
    <aside
      aria-label={strings.panel}
      style={{ width: `${width}%` }}
      className="relative flex min-w-0 shrink-0 animate-slide-left flex-col border-l border-line"
    >
      <Resizer />
      <PanelTabs tab={tab} threadId={threadId} />
    </aside>
  );
}

function Sheet({ tab, threadId }: { tab: PanelTab | null; threadId: string }) {
  const strings = useStrings();
  const open = useOpenPanel();
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = tab !== null;
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already
    <dialog
      ref={dialog}
      aria-label={strings.panel}
      onClose={() => isOpen && open(null)}
      onClick={(event) => event.target === dialog.current && open(null)}
      className="fixed inset-y-0 right-0 left-auto m-0 h-dvh max-h-none w-[min(40rem,100vw)] max-w-none border-l border-line bg-paper text-ink open:flex open:animate-slide-left open:flex-col backdrop:bg-scrim"
    >
      {tab !== null && <PanelTabs tab={tab} threadId={threadId} />}
    </dialog>
  );
}

function PanelTabs({ tab, threadId }: { tab: PanelTab; threadId: string }) {
  const strings = useStrings();
  const open = useOpenPanel();
  return (
    <Tabs.Root
      value={tab}
      onValueChange={(value) => isTab(value) && open(value)}
      className="flex min-h-0 flex-1 flex-col"
    >
      <div className="flex h-12 shrink-0 items-center border-b border-line px-3">
        <Tabs.List aria-label={strings.panel} className="flex gap-1">
          {PANEL_TABS.map((each) => (
            <Tabs.Trigger
              key={each}
              value={each}
              className="h-8 rounded-box px-3 text-soft hover:text-ink data-[state=active]:bg-tint data-[state=active]:font-medium data-[state=active]:text-ink"
            >
              {strings.panelTabs[each]}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <IconButton icon={X} label={strings.hidePanel} onClick={() => open(null)} className="ml-auto" />
      </div>
      <Tabs.Content value="artifacts" className={CONTENT}>
        <Artifacts threadId={threadId} />
      </Tabs.Content>
      <Tabs.Content value="files" className={CONTENT}>
        <Files threadId={threadId} />
      </Tabs.Content>
      <Tabs.Content value="changes" className={CONTENT}>
        <FileChanges threadId={threadId} />
      </Tabs.Content>
      <Tabs.Content value="run" className={CONTENT}>
        <RunTimeline threadId={threadId} />
      </Tabs.Content>
    </Tabs.Root>
  );
}

const CONTENT = "flex min-h-0 flex-1 flex-col outline-none data-[state=inactive]:hidden";
