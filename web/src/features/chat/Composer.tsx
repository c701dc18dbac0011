/** Where the user writes. */

import { type KeyboardEvent, useEffect } from "react";
import { useActions, usePage, useWords } from "@/app/context";
import { currentDraft } from "@/app/page";
import { COMPOSER_ID, focusComposer } from "@/features/chat/composerFocus";
import { ModelPicker } from "@/features/chat/ModelPicker";
import { ModePicker } from "@/features/chat/ModePicker";
import { ScriptedNotice } from "@/features/chat/ScriptedNotice";
import { SendButtons } from "@/features/chat/SendButtons";
import { WaitingMessages } from "@/features/chat/WaitingMessages";
import { SandboxNotice } from "@/features/sandbox/SandboxNotice";
import { isActive, lastOwn } from "@/run/reduce";

export function Composer() {
  const words = useWords();
  const actions = useActions();
  const draft = usePage(currentDraft);
  const threadId = usePage((page) => page.threadId);
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const lastText = usePage(({ conversation }) => lastOwn(conversation)?.text);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a newly opened thread is ready to be written in
  useEffect(focusComposer, [threadId]);

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      void actions.send(draft);
    } else if (event.key === "ArrowUp" && draft === "" && lastText !== undefined) {
      event.preventDefault();
      actions.draft(lastText);
    }
  };

  return (
    <div className="mx-auto w-full max-w-[46rem] px-4 pb-[max(0.75rem,env(safe-area-inset-bottom))]">
      <WaitingMessages />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void actions.send(draft);
        }}
        className="rounded-box border border-line-strong bg-raised focus-within:border-accent/60"
      >
        <textarea
          id={COMPOSER_ID}
          value={draft}
          rows={1}
          onChange={(event) => actions.draft(event.target.value)}
          onKeyDown={onKeyDown}
          aria-label={words.message}
          placeholder={words.messagePlaceholder}
          className="block field-sizing-content max-h-[40dvh] min-h-12 w-full resize-none bg-transparent px-4 pt-3 pb-1 text-prose outline-none placeholder:text-faint"
        />
        <div className="flex items-center gap-2 px-2 pb-2">
          <ModelPicker />
          <ModePicker />
          <span className="ml-auto hidden text-small text-faint wide:inline">
            {active ? words.runningHint : words.composerHint}
          </span>
          <SendButtons canSend={draft.trim() !== ""} />
        </div>
      </form>
      <ScriptedNotice />
      <SandboxNotice />
    </div>
  );
}
