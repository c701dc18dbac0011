/** Message composer. */

import { useNavigate } from "@tanstack/react-router";
import { Paperclip } from "lucide-react";
import {
  type ClipboardEvent,
  type KeyboardEvent,
  lazy,
  Suspense,
  useEffect,
  useLayoutEffect,
  useRef,
} from "react";
import type { UploadLimits } from "@/api/files";
import { AttachmentChips } from "@/features/chat/composer/AttachmentChips";
import { hasFailed, isHeld, isSending, uploadedFiles } from "@/features/chat/composer/attachments";
import {
  COMPLETION_LIST_ID,
  CompletionList,
  completionOptionId,
} from "@/features/chat/composer/CompletionList";
import { DockedPlan } from "@/features/chat/composer/DockedPlan";
import { ModelPicker } from "@/features/chat/composer/ModelPicker";
import { ModePicker } from "@/features/chat/composer/ModePicker";
import { PolishButton } from "@/features/chat/composer/PolishButton";
import { QueuedMessages } from "@/features/chat/composer/QueuedMessages";
import { SandboxNotice } from "@/features/chat/composer/SandboxNotice";
import { ScriptedNotice } from "@/features/chat/composer/ScriptedNotice";
import { SendButtons } from "@/features/chat/composer/SendButtons";
import { Suggestions } from "@/features/chat/composer/Suggestions";
import type { UseAttachments } from "@/features/chat/composer/useAttachments";
import { useCompletion } from "@/features/chat/composer/useCompletion";
import { useDrop } from "@/features/chat/composer/useDrop";
import { useInputHistory } from "@/features/chat/composer/useInputHistory";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatSize } from "@/i18n/format";
import { isActive } from "@/run/reduce";
import { type Command, parseCommand } from "@/state/commands";
import { useActions, usePage } from "@/state/context";
import { memoryCommand } from "@/state/memorySearch";
import { modelName, useModels } from "@/state/models";
import { currentDraft } from "@/state/page";
import { useFeature } from "@/state/server";
import { COMPOSER_ID, focusComposer } from "@/ui/dom/composerFocus";
import { IconButton } from "@/ui/IconButton";

const Dictation = lazy(() => import("@/features/chat/composer/Dictation"));
// Messages after which the keys are known.
const HINTED = 5;
const RECOGNIZES_SPEECH = "SpeechRecognition" in window || "webkitSpeechRecognition" in window;

export function Composer({ attachments }: { attachments: UseAttachments }) {
  const strings = useStrings();
  const actions = useActions();
  const draft = usePage(currentDraft);
  const threadId = usePage((page) => page.threadId);
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const decides = usePage(({ conversation }) => conversation.approval !== null);
  const takesFiles = useFeature("uploads");
  const dropping = useDrop(takesFiles ? attachments.add : null);
  const known = usePage((page) => page.preferences.sentMessages);
  const history = useInputHistory();
  const [area, write] = useTextField();
  const completion = useCompletion(draft, write);
  const carriedOut = useCommand();
  const picker = useRef<HTMLInputElement>(null);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a newly opened thread is ready to be written in
  useEffect(focusComposer, [threadId]);

  const files = uploadedFiles(attachments.all);
  const sending = isSending(attachments.all);
  const held = attachments.all.some(isHeld);
  const canSend = (draft.trim() !== "" || files.length > 0 || held) && !sending;
  const { waits, setWaits } = attachments;
  const send = () => {
    setWaits(sending || held);
    if (!canSend || carriedOut(draft)) return;
    if (known < HINTED) actions.prefer({ sentMessages: known + 1 });
    if (held) return attachments.begin();
    attachments.sent();
    void actions.send(draft, { files });
  };

  // Wait for uploads in progress. After a failure the user decides.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the moment the last of them has come
  useEffect(() => {
    if (!waits || sending || held) return;
    if (attachments.all.some(hasFailed)) setWaits(false);
    else send();
  }, [waits, sending, held]);

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing || completion.takesKey(event)) return;
    // The Enter key of an on-screen keyboard makes a new line.
    if (event.key === "Enter" && !event.shiftKey && !isTouch()) {
      event.preventDefault();
      send();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const found = history(event.key === "ArrowUp" ? "before" : "after", draft);
      if (found === null) return;
      event.preventDefault();
      write(found, found.length);
    }
  };
  const onPaste = (event: ClipboardEvent) => {
    if (!takesFiles || event.clipboardData.files.length === 0) return;
    event.preventDefault();
    attachments.add(event.clipboardData.files);
  };

  const lists = completion.candidates.length > 0;
  return (
    <div className="mx-auto w-full max-w-[46rem] px-4 pb-[max(0.75rem,env(safe-area-inset-bottom))]">
      <Suggestions />
      <QueuedMessages />
      <DockedPlan />
      {lists && <CompletionList {...completion} onChoose={completion.choose} />}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
        className={`rounded-composer border bg-raised focus-within:border-faint ${dropping ? "border-accent border-dashed" : "border-line-strong"}`}
      >
        <AttachmentChips all={attachments.all} limits={attachments.limits} onRemove={attachments.remove} />
        <textarea
          ref={area}
          id={COMPOSER_ID}
          value={draft}
          rows={1}
          onChange={({ target }) => {
            actions.draft(target.value);
            completion.update(target.value, target.selectionStart);
          }}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
          aria-label={strings.message}
          aria-controls={lists ? COMPLETION_LIST_ID : undefined}
          aria-activedescendant={lists ? completionOptionId(completion.current) : undefined}
          aria-autocomplete="list"
          placeholder={decides ? strings.waitsForDecision : strings.messagePlaceholder}
          className="block field-sizing-content max-h-[40dvh] min-h-12 w-full resize-none bg-transparent px-4 pt-3 pb-1 text-prose outline-none placeholder:text-faint"
        />
        <div className="@container flex items-center gap-1 px-2 pb-2">
          {takesFiles && (
            <IconButton
              icon={Paperclip}
              label={strings.attachFiles}
              data-shortcut="attach"
              large
              onClick={() => picker.current?.click()}
            />
          )}
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            aria-label={strings.attachFiles}
            onChange={({ target }) => {
              attachments.add([...(target.files ?? [])]);
              target.value = "";
            }}
          />
          <ModelPicker />
          <ModePicker />
          <PolishButton draft={draft} />
          {RECOGNIZES_SPEECH && (
            <Suspense>
              <Dictation />
            </Suspense>
          )}
          <span
            className={`mr-1 hidden min-w-0 flex-1 truncate text-right text-small text-faint ${active ? "wide:inline" : "@min-[40rem]:inline"}`}
          >
            {active ? strings.runningHint : known < HINTED && strings.composerHint}
          </span>
          <SendButtons canSend={canSend} />
        </div>
      </form>
      {dropping && <DropTarget limits={attachments.limits} />}
      <ScriptedNotice />
      <SandboxNotice />
    </div>
  );
}

function isTouch(): boolean {
  return window.matchMedia?.("(pointer: coarse)").matches ?? false;
}

/** Shows that the whole page takes the files. */
function DropTarget({ limits }: { limits: UploadLimits | null }) {
  const strings = useStrings();
  const language = useLanguage();
  return (
    <div className="pointer-events-none fixed inset-2 z-30 grid place-items-center rounded-box border-2 border-accent border-dashed bg-paper/85 text-title font-semibold">
      {limits === null
        ? strings.dropFiles
        : strings.dropFilesUpTo(formatSize(limits.max_file_size, language))}
    </div>
  );
}

/** Handle page commands such as `/memory`; returns false if the text is a message. */
function useCommand(): (text: string) => boolean {
  const actions = useActions();
  const navigate = useNavigate();
  const remembers = useFeature("memory");
  const models = useModels();
  const { goal } = useStrings().workspace;
  const choose = (wanted: string) => {
    const all = models.phase === "ready" ? models.value.models : [];
    const sought = wanted.toLowerCase();
    const found = all.find((model) =>
      [model.name, modelName(model)].some((name) => name.toLowerCase() === sought),
    );
    if (found === undefined) actions.notice({ kind: "unknownModel", detail: wanted });
    else actions.prefer({ model: found.name });
  };
  const carryOut = ({ name, rest }: Command) => {
    if (name === "compact") void actions.compact();
    else if (name === "goal") void actions.send(`${goal}: ${rest}`, { pinned: true });
    else if (name === "model") choose(rest);
    else void actions.open(null).then(() => rest !== "" && actions.draft(rest));
  };
  return (text) => {
    const search = remembers ? memoryCommand(text) : null;
    const command = parseCommand(text);
    if (search === null && command === null) return false;
    // An incomplete command stays to be finished.
    if ((command?.name === "goal" || command?.name === "model") && command.rest === "") return true;
    actions.draft("");
    if (search !== null) void navigate({ to: "/memory", search });
    else if (command !== null) carryOut(command);
    return true;
  };
}

/** Set the text and the caret. */
function useTextField() {
  const actions = useActions();
  const area = useRef<HTMLTextAreaElement>(null);
  const caret = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (caret.current !== null) area.current?.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  });
  const write = (text: string, at: number) => {
    caret.current = at;
    actions.draft(text);
  };
  return [area, write] as const;
}
