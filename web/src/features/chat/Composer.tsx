/** Where the user writes. */

import { ArrowUp, Square } from "lucide-react";
import { type KeyboardEvent, useEffect } from "react";
import { useActions, usePage, useWords } from "@/app/context";
import { currentDraft } from "@/app/page";
import { COMPOSER_ID, focusComposer } from "@/features/chat/composerFocus";
import { ModelPicker } from "@/features/chat/ModelPicker";
import { ScriptedNotice } from "@/features/chat/ScriptedNotice";
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
          <span className="ml-auto hidden text-small text-faint wide:inline">
            {active ? words.runningHint : words.composerHint}
          </span>
          <SendOrStop active={active} />
        </div>
      </form>
      <ScriptedNotice />
      <SandboxNotice />
    </div>
  );
}

function SendOrStop({ active }: { active: boolean }) {
  const words = useWords();
  const actions = useActions();
  const stopping = usePage(({ conversation }) => conversation.run.stopping);
  const stoppable = usePage(({ conversation }) => conversation.run.id !== null);
  const empty = usePage((page) => currentDraft(page).trim() === "");
  const look =
    "ml-auto inline-flex size-8 shrink-0 items-center justify-center rounded-box wide:ml-0 disabled:bg-tint-strong disabled:text-faint";
  if (!active) {
    return (
      <button
        type="submit"
        disabled={empty}
        aria-label={words.send}
        title={words.send}
        className={`${look} bg-accent text-on-accent hover:bg-accent-strong`}
      >
        <ArrowUp aria-hidden className="size-4" />
      </button>
    );
  }
  const label = stopping ? words.stopping : words.stop;
  return (
    <button
      type="button"
      onClick={() => void actions.stop()}
      disabled={stopping || !stoppable}
      aria-label={label}
      title={label}
      className={`${look} bg-ink text-paper hover:opacity-85`}
    >
      <Square aria-hidden className={`size-3.5 fill-current ${stopping ? "animate-breathe" : ""}`} />
    </button>
  );
}
