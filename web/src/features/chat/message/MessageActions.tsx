/** Actions of a message. */

import { Ellipsis, GitBranch, Pencil, RefreshCw } from "lucide-react";
import { lazy, type ReactNode, Suspense } from "react";
import { useOtherModels } from "@/features/chat/message/OtherModels";
import { Versions } from "@/features/chat/message/Versions";
import { useStrings } from "@/i18n/context";
import type { Fork } from "@/run/branches";
import type { Message } from "@/run/message";
import { isActive } from "@/run/reduce";
import { useActions, usePage } from "@/state/context";
import { modelName } from "@/state/models";
import { useBranch } from "@/state/useBranch";
import { CopyButton } from "@/ui/CopyButton";
import { IconButton } from "@/ui/IconButton";
import { Menu, MenuItem } from "@/ui/Menu";

const AnswerRating = lazy(() => import("@/features/chat/message/AnswerRating"));

interface Props {
  readonly message: Message;
  readonly fork: Fork | undefined;
}

export function UserMessageActions({ message, fork, onEdit }: Props & { readonly onEdit: () => void }) {
  const strings = useStrings();
  const free = useIsEditable(message);
  return (
    <Row fork={fork} isFloating>
      <CopyButton text={message.text} label={strings.copyMessage} />
      {free && <IconButton icon={Pencil} label={strings.editMessage} onClick={onEdit} />}
      {free && <More message={message} label={strings.branchBefore} />}
    </Row>
  );
}

export function AnswerActions({ message, fork }: Props) {
  const strings = useStrings();
  const actions = useActions();
  const free = useIsEditable(message);
  return (
    <div className="relative -mt-2 -ml-2">
      <Row fork={fork}>
        <CopyButton text={message.text} label={strings.copyAnswer} />
        {free && (
          <IconButton
            icon={RefreshCw}
            label={strings.regenerate}
            onClick={() => void actions.regenerate(message.id)}
          />
        )}
        {free && (
          <Suspense>
            <AnswerRating message={message} />
          </Suspense>
        )}
        {free && (
          <More message={message} label={strings.branchHere}>
            <RegenerateWith message={message} />
          </More>
        )}
      </Row>
    </div>
  );
}

/** Items that answer again with one of the other models. */
function RegenerateWith({ message }: { message: Message }) {
  const strings = useStrings();
  const actions = useActions();
  const others = useOtherModels();
  return others.map((model) => (
    <MenuItem
      key={model.name}
      icon={RefreshCw}
      label={strings.regenerateWith(modelName(model))}
      onChoose={() => {
        actions.prefer({ model: model.name });
        void actions.regenerate(message.id);
      }}
    />
  ));
}

interface MoreProps {
  readonly message: Message;
  readonly label: string;
  readonly children?: ReactNode;
}

function More({ message, label, children }: MoreProps) {
  const strings = useStrings();
  const branch = useBranch();
  return (
    <Menu align="end" trigger={<IconButton icon={Ellipsis} label={strings.moreActions} />}>
      {children}
      <MenuItem icon={GitBranch} label={label} onChoose={() => branch(message.id)} />
    </Menu>
  );
}

interface RowProps {
  readonly fork: Fork | undefined;
  /** Takes no space while it is hidden: it appears in the gap below the message. */
  readonly isFloating?: boolean;
  readonly children: ReactNode;
}

/** Visible on hover, on focus and on touch screens; always visible if there are versions. */
function Row({ fork, isFloating = false, children }: RowProps) {
  const floating =
    isFloating && fork === undefined ? "[@media(hover:hover)]:-mt-1 [@media(hover:hover)]:-mb-8" : "";
  return (
    <div className={`-mb-4 flex min-h-8 items-center ${floating}`}>
      {fork !== undefined && <Versions fork={fork} />}
      <div className="flex flex-wrap items-center transition-opacity group-hover:opacity-100 focus-within:opacity-100 has-[[data-state=open]]:opacity-100 has-[[aria-pressed=true]]:opacity-100 [@media(hover:hover)]:opacity-0">
        {children}
      </div>
    </div>
  );
}

/** Return true if a message is stored and no run is active. */
function useIsEditable({ runId }: Message): boolean {
  return usePage(({ conversation }) => runId !== null && !isActive(conversation.run));
}
