/** Thread title with its menu, list and panel toggles, sharing and context usage. */

import { Link } from "@tanstack/react-router";
import { Bot, ChevronDown, GitBranch, PanelRight, Share2, ShieldCheck } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { ThreadMenu } from "@/features/threads/ThreadMenu";
import { RenameField } from "@/features/threads/ThreadRow";
import { useStrings } from "@/i18n/context";
import { ListToggle } from "@/layout/ListToggle";
import { isActive } from "@/run/reduce";
import { usePage } from "@/state/context";
import { type Thread, useThread } from "@/state/threadList";
import { useBranch } from "@/state/useBranch";
import { usePanel, useTogglePanel } from "@/state/usePanel";
import { IconButton } from "@/ui/IconButton";
import { MenuItem } from "@/ui/Menu";

const ContextGauge = lazy(() => import("@/features/panel/ContextGauge"));
const PermissionsDialog = lazy(() => import("@/features/threads/PermissionsDialog"));
const ShareDialog = lazy(() => import("@/features/threads/ShareDialog"));
const SharedNote = lazy(() =>
  import("@/features/threads/SharedThreads").then((module) => ({ default: module.SharedNote })),
);

export function Header() {
  const strings = useStrings();
  const title = useOpenTitle();
  const threadId = usePage((page) => page.threadId);
  const thread = useThread(threadId);
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-3">
      <ListToggle />
      {thread === undefined ? (
        <h1 className="min-w-0 truncate font-medium">
          {title ??
            (threadId === null ? strings.newThread : <span className="sr-only">{strings.untitled}</span>)}
        </h1>
      ) : (
        <ThreadTitle key={thread.id} thread={thread} title={title ?? strings.untitled} />
      )}
      {thread === undefined && threadId !== null && (
        <Suspense>
          <SharedNote threadId={threadId} />
        </Suspense>
      )}
      <div className="ml-auto flex shrink-0 items-center gap-2 pl-2">
        <AgentChip />
        {threadId !== null && (
          <Suspense>
            <ContextGauge threadId={threadId} />
          </Suspense>
        )}
        {thread !== undefined && <ShareButton thread={thread} title={title ?? strings.untitled} />}
        {threadId !== null && <PanelToggle />}
      </div>
    </header>
  );
}

interface TitleProps {
  readonly thread: Thread;
  readonly title: string;
}

/** Title that opens the menu of the thread. */
function ThreadTitle({ thread, title }: TitleProps) {
  const strings = useStrings();
  const branch = useBranch();
  const [renaming, setRenaming] = useState(false);
  const [permitting, setPermitting] = useState(false);
  const last = usePage(({ conversation: { order, settled, run } }) =>
    isActive(run) ? undefined : order.findLast((id) => settled.get(id)?.role === "assistant"),
  );
  if (renaming)
    return (
      <div className="w-full max-w-96 min-w-0">
        <RenameField thread={thread} onDone={() => setRenaming(false)} />
      </div>
    );
  return (
    <h1 className="min-w-0">
      <ThreadMenu
        thread={thread}
        title={title}
        align="start"
        onRename={() => setRenaming(true)}
        trigger={(props) => (
          <button
            type="button"
            {...props}
            title={title}
            data-shortcut="thread"
            className="flex h-8 max-w-full min-w-0 items-center gap-1 rounded-box px-2 font-medium hover:bg-tint data-[state=open]:bg-tint"
          >
            <span className="truncate">{title}</span>
            <ChevronDown aria-label={strings.workspace.actions} className="size-4 shrink-0 text-faint" />
          </button>
        )}
      >
        {last !== undefined && (
          <MenuItem icon={GitBranch} label={strings.workspace.branch} onChoose={() => branch(last)} />
        )}
        <MenuItem
          icon={ShieldCheck}
          label={strings.workspace.permissions}
          onChoose={() => setPermitting(true)}
        />
      </ThreadMenu>
      {permitting && (
        <Suspense>
          <PermissionsDialog threadId={thread.id} onClose={() => setPermitting(false)} />
        </Suspense>
      )}
    </h1>
  );
}

function ShareButton({ thread, title }: TitleProps) {
  const strings = useStrings();
  const [open, setOpen] = useState(false);
  return (
    <>
      <IconButton icon={Share2} label={strings.share} data-shortcut="share" onClick={() => setOpen(true)} />
      {open && (
        <Suspense>
          <ShareDialog threadId={thread.id} title={title} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}

/** Shows the agent if it is not the lead agent. */
function AgentChip() {
  const strings = useStrings();
  const { agent, bootstrap } = usePage((page) => page.activeAgent);
  if (bootstrap) return <span className={`${CHIP} text-soft`}>{strings.creatingAgent}</span>;
  if (agent === null) return null;
  return (
    <Link
      to="/agents/$name"
      params={{ name: agent }}
      title={strings.chattingWith(agent)}
      className={`${CHIP} text-soft hover:border-line-strong hover:text-ink`}
    >
      <Bot aria-hidden className="size-3.5" />
      {agent}
    </Link>
  );
}

const CHIP = "flex items-center gap-1 rounded-full border border-line px-2 py-0.5 text-small";

function PanelToggle() {
  const strings = useStrings();
  const { tab } = usePanel();
  const toggle = useTogglePanel();
  const open = tab !== null;
  return (
    <IconButton
      icon={PanelRight}
      label={open ? strings.hidePanel : strings.showPanel}
      aria-expanded={open}
      onClick={toggle}
    />
  );
}

/** Return the title of the open thread. */
export function useOpenTitle(): string | null {
  const title = usePage(({ conversation }) => conversation.title);
  const listed = useThread(usePage((page) => page.threadId));
  return listed?.title ?? title ?? null; // the list has the title that a model writes after the run
}
