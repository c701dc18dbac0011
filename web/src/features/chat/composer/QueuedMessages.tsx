/** Queued messages. */

import { Clock, CornerDownRight, X } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { focusComposer } from "@/ui/dom/composerFocus";
import { IconButton } from "@/ui/IconButton";

export function QueuedMessages() {
  const strings = useStrings();
  const actions = useActions();
  const queued = usePage(({ conversation }) => conversation.queued);
  if (queued.length === 0) return null;
  return (
    <ul aria-label={strings.queuedMessages} className="mb-2 flex max-h-40 flex-col gap-1 overflow-y-auto">
      {queued.map((each) => {
        const Icon = each.strategy === "steer" ? CornerDownRight : Clock;
        return (
          <li
            key={each.messageId}
            className="flex animate-appear items-center gap-2 rounded-box border border-line bg-rail py-0.5 pr-1 pl-3 text-small"
          >
            <Icon aria-hidden className="size-3.5 shrink-0 text-faint" />
            <span className="shrink-0 text-faint">{strings.queuedLabels[each.strategy]}</span>
            <span className="min-w-0 flex-1 truncate text-soft">{each.text}</span>
            <IconButton
              icon={X}
              label={strings.cancelQueuedMessage(each.text)}
              disabled={each.runId === null}
              onClick={() => {
                focusComposer();
                void actions.cancelQueued(each);
              }}
            />
          </li>
        );
      })}
    </ul>
  );
}
