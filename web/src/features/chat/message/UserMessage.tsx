/** A user message. */

import { Target } from "lucide-react";
import { useState } from "react";
import { UserMessageActions } from "@/features/chat/message/MessageActions";
import { MessageEditor } from "@/features/chat/message/MessageEditor";
import { SentFiles } from "@/features/chat/message/SentFiles";
import { useStrings } from "@/i18n/context";
import type { Fork } from "@/run/branches";
import type { Message } from "@/run/message";
import { useActions } from "@/state/context";
import { focusComposer } from "@/ui/dom/composerFocus";

interface Props {
  readonly message: Message;
  readonly unsent: boolean;
  readonly fork: Fork | undefined;
}

export function UserMessage({ message, unsent, fork }: Props) {
  const strings = useStrings();
  const actions = useActions();
  const [editing, setEditing] = useState(false);
  const close = () => {
    setEditing(false);
    focusComposer();
  };
  if (editing) {
    return (
      <MessageEditor
        text={message.text}
        onCancel={close}
        onSend={(text) => {
          close();
          void actions.edit(message.id, text);
        }}
      />
    );
  }
  return (
    <article
      aria-label={strings.you}
      data-role="user"
      className="group ml-auto flex max-w-[85%] flex-col items-end gap-1"
    >
      {message.files.length > 0 && <SentFiles files={message.files} />}
      {message.text !== "" && (
        <div
          data-said
          className={`rounded-box bg-bubble px-4 py-3 text-prose whitespace-pre-wrap [overflow-wrap:anywhere] ${unsent ? "opacity-70" : ""}`}
        >
          {message.pinned && <Target aria-hidden className="mr-2 inline size-4 align-[-2px] text-accent" />}
          {message.text}
        </div>
      )}
      {unsent ? (
        <span className="text-small text-error">{strings.notSent}</span>
      ) : (
        <UserMessageActions message={message} fork={fork} onEdit={() => setEditing(true)} />
      )}
    </article>
  );
}
