/** Inline editor of a user message. */

import { type KeyboardEvent, useState } from "react";
import { useStrings } from "@/i18n/context";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";

interface Props {
  readonly text: string;
  readonly onSend: (text: string) => void;
  readonly onCancel: () => void;
}

export function MessageEditor({ text, onSend, onCancel }: Props) {
  const strings = useStrings();
  const [draft, setDraft] = useState(text);
  const empty = draft.trim() === "";
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Escape") {
      event.preventDefault();
      onCancel();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      if (!empty) onSend(draft);
    }
  };
  return (
    <form
      data-role="user"
      onSubmit={(event) => {
        event.preventDefault();
        if (!empty) onSend(draft);
      }}
      className="rounded-box border border-line-strong bg-raised focus-within:border-accent/60"
    >
      <textarea
        ref={focusOnMount}
        value={draft}
        rows={1}
        onChange={(event) => setDraft(event.target.value)}
        onKeyDown={onKeyDown}
        aria-label={strings.editMessage}
        className="block field-sizing-content max-h-[50dvh] min-h-12 w-full resize-none bg-transparent px-4 pt-3 pb-1 text-prose outline-none"
      />
      <div className="flex flex-wrap items-center gap-2 pr-3 pb-3 pl-4">
        <p className="min-w-0 flex-1 basis-40 text-small text-faint">{strings.editMessageHint}</p>
        <Button onClick={onCancel}>{strings.cancel}</Button>
        <Button primary type="submit" disabled={empty}>
          {strings.send}
        </Button>
      </div>
    </form>
  );
}
