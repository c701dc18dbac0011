/** Side question about a quoted part: answered in a temporary copy of the thread, which is deleted afterwards. */

import { X } from "lucide-react";
import { type FormEvent, type KeyboardEvent, useEffect, useId, useReducer, useRef, useState } from "react";
import type { Gateway } from "@/api/gateway";
import { quoted } from "@/features/chat/quoted";
import { useStrings } from "@/i18n/context";
import { useWorkspaceParts } from "@/i18n/workspaceParts";
import { Markdown } from "@/markdown/Markdown";
import { type Conversation, EMPTY_CONVERSATION, findMessage, isActive, reduce } from "@/run/reduce";
import { browserRetryPolicy, followRun } from "@/run/stream";
import { useActions, useGateway, usePage } from "@/state/context";
import { useCurrentModel } from "@/state/models";
import { settingsFor } from "@/state/modes";
import { currentDraft } from "@/state/page";
import { Button } from "@/ui/Button";
import { focusComposer } from "@/ui/dom/composerFocus";
import { focusOnMount } from "@/ui/dom/focusOnMount";
import { Elapsed } from "@/ui/Elapsed";
import { IconButton } from "@/ui/IconButton";

interface Props {
  readonly threadId: string;
  /** Run of the quoted message: the question is asked at its end. */
  readonly runId: string | null;
  readonly quote: string;
  readonly onClose: () => void;
}

export default function Aside({ threadId, runId, quote, onClose }: Props) {
  const page = useStrings();
  const strings = useWorkspaceParts();
  const actions = useActions();
  const draft = usePage(currentDraft);
  const title = useId();
  const { conversation, ask, failed } = useAside(threadId, runId);
  const active = isActive(conversation.run);
  const answer = answerOf(conversation);
  const close = () => {
    onClose();
    focusComposer();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // it would stop the run of the thread
    close();
  };
  return (
    <section
      role="dialog"
      aria-labelledby={title}
      onKeyDown={onKeyDown}
      className="fixed right-2 bottom-2 left-2 z-30 flex max-h-[70dvh] animate-appear flex-col rounded-box border border-line-strong bg-raised shadow-float wide:right-6 wide:bottom-36 wide:left-auto wide:w-[26rem]"
    >
      <div className="flex h-11 shrink-0 items-center gap-2 border-b border-line pr-1 pl-4">
        <h2 id={title} className="min-w-0 flex-1 truncate font-medium">
          {strings.aside}
        </h2>
        <IconButton icon={X} label={page.close} onClick={close} />
      </div>
      <div className="flex min-h-0 flex-col gap-3 overflow-y-auto px-4 py-3">
        <blockquote className="line-clamp-3 border-l-2 border-line-strong pl-3 text-small text-soft">
          {quote}
        </blockquote>
        {conversation.order.map((id) => (
          <Entry key={id} conversation={conversation} id={id} />
        ))}
        {active && answer === "" && (
          <p role="status" className="flex items-center gap-2 text-ui text-faint">
            <span className="animate-breathe">{page.thinking}</span>
            <Elapsed since={conversation.run.startedAt} />
          </p>
        )}
        {(failed || conversation.run.phase === "failed") && (
          <p role="alert" className="text-error">
            {strings.asideFailed}
          </p>
        )}
        {conversation.approval !== null && <p role="alert">{strings.asideNeedsApproval}</p>}
      </div>
      <Question
        disabled={active || conversation.approval !== null}
        hint={answer === "" ? strings.asideHint : ""}
        onAsk={(text) => ask(conversation.order.length === 0 ? quoted(quote, text) : text)}
      />
      {answer !== "" && !active && (
        <div className="flex flex-wrap gap-2 border-t border-line bg-rail px-4 py-2">
          <Button
            primary
            onClick={() => {
              actions.draft(draft.trim() === "" ? answer : `${draft}\n\n${answer}`);
              close();
            }}
          >
            {strings.insertAnswer}
          </Button>
          <Button onClick={close}>{page.close}</Button>
        </div>
      )}
    </section>
  );
}

interface QuestionProps {
  readonly disabled: boolean;
  readonly hint: string;
  readonly onAsk: (text: string) => void;
}

function Question({ disabled, hint, onAsk }: QuestionProps) {
  const strings = useWorkspaceParts();
  const [text, setText] = useState("");
  const submit = (event: FormEvent | KeyboardEvent) => {
    event.preventDefault();
    if (disabled || text.trim() === "") return;
    onAsk(text.trim());
    setText("");
  };
  return (
    <form onSubmit={submit} className="flex shrink-0 flex-col gap-2 border-t border-line px-4 py-3">
      <div className="flex items-end gap-2">
        <textarea
          ref={focusOnMount}
          value={text}
          rows={1}
          aria-label={strings.asideQuestion}
          placeholder={strings.asideQuestion}
          onChange={({ target }) => setText(target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) submit(event);
          }}
          className="block field-sizing-content max-h-32 min-h-9 min-w-0 flex-1 resize-none rounded-box border border-line-strong bg-raised px-3 py-1.5 text-ui"
        />
        <Button type="submit" primary disabled={disabled || text.trim() === ""}>
          {strings.askAside}
        </Button>
      </div>
      <p className="text-small text-faint empty:hidden">{hint}</p>
    </form>
  );
}

/** A question without its quote, or an answer. */
function Entry({ conversation, id }: { conversation: Conversation; id: string }) {
  const message = findMessage(conversation, id);
  if (message === undefined || message.hidden || message.text === "") return null;
  if (message.role === "user")
    return <p className="font-medium whitespace-pre-wrap wrap-anywhere">{withoutQuote(message.text)}</p>;
  if (message.role !== "assistant") return null;
  return <Markdown text={message.text} growing={conversation.streaming.has(id)} />;
}

function withoutQuote(text: string): string {
  return text
    .split("\n")
    .filter((line) => !line.startsWith(">"))
    .join("\n")
    .trim();
}

/** Return the text of the last answer. */
function answerOf(conversation: Conversation): string {
  const last = findMessage(conversation, conversation.order.at(-1) ?? "");
  return last?.role === "assistant" ? last.text.trim() : "";
}

/** Ask in a copy of the thread; leaving deletes it. */
function useAside(threadId: string, runId: string | null) {
  const gateway = useGateway();
  const model = useCurrentModel();
  const [conversation, emit] = useReducer(reduce, EMPTY_CONVERSATION);
  const [failed, setFailed] = useState(false);
  const copy = useRef<Promise<string> | null>(null);
  const leaving = useRef(new AbortController());

  useEffect(() => {
    const controller = new AbortController();
    leaving.current = controller;
    const leave = () => {
      controller.abort();
      // The server deletes a temporary thread later if this fails.
      void copy.current?.then((id) => gateway.endTemporary(id)).catch(() => undefined);
      copy.current = null;
    };
    window.addEventListener("pagehide", leave);
    return () => {
      window.removeEventListener("pagehide", leave);
      leave();
    };
  }, [gateway]);

  async function ask(text: string): Promise<void> {
    const { signal } = leaving.current;
    const at = Date.now();
    const messageId = crypto.randomUUID();
    const settings = settingsFor("flash", model);
    setFailed(false);
    emit({
      type: "sent",
      messageId,
      text,
      files: [],
      planMode: false,
      subagents: false,
      model: settings.model,
      at,
    });
    try {
      copy.current ??= beginAside(gateway, threadId, runId);
      const id = await copy.current;
      if (signal.aborted) return;
      const source = {
        connect: (until: AbortSignal) => gateway.startRun(id, { messageId, text, ...settings }, until),
        rejoin: (run: string, after: number | null, until: AbortSignal) =>
          gateway.joinRun(id, run, after, until),
      };
      for await (const item of followRun(source, browserRetryPolicy, signal)) {
        if (item.type !== "frame") emit(item);
        else emit({ type: "frameReceived", seq: item.seq, at: Date.now(), frame: item.frame });
      }
    } catch (error) {
      if (signal.aborted) return;
      const { name, message } = error instanceof Error ? error : { name: "Error", message: "" };
      emit({ type: "streamFailed", error: { name, message } });
      copy.current = null;
      setFailed(true);
    }
  }

  return { conversation, failed, ask: (text: string) => void ask(text) };
}

async function beginAside(gateway: Gateway, threadId: string, runId: string | null): Promise<string> {
  const checkpoint = runId === null ? null : await gateway.endOf(threadId, runId);
  return gateway.copyThread(threadId, checkpoint, { temporary: true });
}
