/** Own messages that wait while the agent works. */

import { Clock, CornerDownRight, X } from "lucide-react";
import { useActions, usePage, useStrings } from "@/app/context";
import { focusComposer } from "@/features/chat/composerFocus";
import { IconButton } from "@/ui/IconButton";

export function WaitingMessages() {
  const strings = useStrings();
  const actions = useActions();
  const waiting = usePage(({ conversation }) => conversation.waiting);
  if (waiting.length === 0) return null;
  return (
    <ul aria-label={strings.waitingMessages} className="mb-2 flex max-h-40 flex-col gap-1 overflow-y-auto">
      {waiting.map((each) => {
        const Icon = each.manner === "steer" ? CornerDownRight : Clock;
        return (
          <li
            key={each.messageId}
            className="flex animate-appear items-center gap-2 rounded-box border border-line bg-rail py-0.5 pr-1 pl-3 text-small"
          >
            <Icon aria-hidden className="size-3.5 shrink-0 text-faint" />
            <span className="shrink-0 text-faint">{strings.waitingAs[each.manner]}</span>
            <span className="min-w-0 flex-1 truncate text-soft">{each.text}</span>
            <IconButton
              icon={X}
              label={strings.withdraw(each.text)}
              disabled={each.runId === null}
              onClick={() => {
                focusComposer();
                void actions.withdraw(each);
              }}
            />
          </li>
        );
      })}
    </ul>
  );
}
