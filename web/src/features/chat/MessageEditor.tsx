/** An own message, to be said otherwise, in its place. */

import { type KeyboardEvent, useState } from "react";
import { useStrings } from "@/app/context";
import { Button } from "@/ui/Button";
import { focusNow } from "@/ui/focusNow";

interface Props {
  readonly text: string;
  readonly onSend: (text: string) => void;
  readonly onCancel: () => void;
}

export function MessageEditor({ text, onSend, onCancel }: Props) {
  const strings = useStrings();
  const [written, setWritten] = useState(text);
  const empty = written.trim() === "";
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Escape") {
      event.preventDefault();
      onCancel();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      if (!empty) onSend(written);
    }
  };
  return (
    <form
      data-role="user"
      onSubmit={(event) => {
        event.preventDefault();
        if (!empty) onSend(written);
      }}
      className="rounded-box border border-line-strong bg-raised focus-within:border-accent/60"
    >
      <textarea
        ref={focusNow}
        value={written}
        rows={1}
        onChange={(event) => setWritten(event.target.value)}
        onKeyDown={onKeyDown}
        aria-label={strings.editMessage}
        className="block field-sizing-content max-h-[50dvh] min-h-12 w-full resize-none bg-transparent px-4 pt-3 pb-1 text-prose outline-none"
      />
      <div className="flex flex-wrap items-center gap-2 px-3 pb-3">
        <p className="min-w-0 flex-1 basis-40 text-small text-faint">{strings.editMessageHint}</p>
        <Button onClick={onCancel}>{strings.cancel}</Button>
        <Button primary type="submit" disabled={empty}>
          {strings.send}
        </Button>
      </div>
    </form>
  );
}
