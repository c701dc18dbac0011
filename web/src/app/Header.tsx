/** Thread title, list and panel toggles, context usage. */

import { Link } from "@tanstack/react-router";
import { Bot, PanelRight } from "lucide-react";
import { ContextGauge } from "@/features/panel/ContextGauge";
import { useStrings } from "@/i18n/context";
import { ListToggle } from "@/layout/ListToggle";
import { usePage } from "@/state/context";
import { modelName, useCurrentModel } from "@/state/models";
import { useThread } from "@/state/threadList";
import { usePanel, useTogglePanel } from "@/state/usePanel";
import { IconButton } from "@/ui/IconButton";

export function Header() {
  const strings = useStrings();
  const title = useOpenTitle();
  const threadId = usePage((page) => page.threadId);
  const model = useCurrentModel();
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-3">
      <ListToggle />
      <h1 className="min-w-0 truncate font-medium">
        {title ?? (threadId === null ? strings.newThread : "")}
      </h1>
      <div className="ml-auto flex shrink-0 items-center gap-3 pl-2">
        {threadId !== null && <ContextGauge threadId={threadId} />}
        <AgentChip />
        {/* On narrow screens only the composer shows the model. */}
        {model !== null && (
          <span className="hidden max-w-48 truncate text-small text-faint wide:inline">
            {modelName(model)}
          </span>
        )}
        {threadId !== null && <PanelToggle />}
      </div>
    </header>
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
