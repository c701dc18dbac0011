/** Read-only view of the thread of another person, for administrators. Every read is recorded. */

import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { WireMessageRecord } from "@/api/wire";
import { Section } from "@/features/settings/Section";
import { useAccountStrings } from "@/i18n/accounts";
import { useLanguage } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { Markdown } from "@/markdown/Markdown";
import { type Message, messageOf } from "@/run/message";
import { argsText } from "@/run/toolCalls";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Line } from "@/ui/fields";

/** Shortest reason that the server accepts. */
const MIN_REASON = 3;
const IN_LINK = /\/threads\/([^/?#\s]+)/;

interface ShownMessages {
  readonly threadId: string;
  readonly reason: string;
  readonly records: readonly WireMessageRecord[];
  /** Cursor of the earlier messages. */
  readonly before: string | null;
}

/** Return the id of a thread that is given as an id or as a link. */
export function threadIdIn(typed: string): string {
  const found = IN_LINK.exec(typed)?.[1];
  return found === undefined ? typed.trim() : decodeURIComponent(found);
}

export function ReadThread() {
  const strings = useAccountStrings();
  const { accounts } = useServer();
  const [thread, setThread] = useState("");
  const [reason, setReason] = useState("");
  const [shown, setShown] = useState<ShownMessages | null>(null);
  const read = useMutation({
    mutationFn: async (earlier: ShownMessages | null): Promise<ShownMessages> => {
      const threadId = earlier?.threadId ?? threadIdIn(thread);
      const why = earlier?.reason ?? reason.trim();
      const page = await accounts.readThread(threadId, why, earlier?.before ?? null);
      const records = [...page.data, ...(earlier?.records ?? [])];
      return { threadId, reason: why, records, before: page.before ?? null };
    },
    onSuccess: setShown,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setShown(null);
    read.mutate(null);
  };
  const isComplete = thread.trim() !== "" && reason.trim().length >= MIN_REASON;
  return (
    <Section title={strings.readThread}>
      <form onSubmit={submit} className="flex flex-col gap-4 p-4">
        <p>{strings.readThreadHint}</p>
        <Line name={strings.threadOrLink} value={thread} onChange={setThread} mono />
        <Line name={strings.reason} hint={strings.reasonHint} value={reason} onChange={setReason} />
        {read.error && (
          <p role="alert" className="text-small text-error">
            {sentence(read.error.message)}
          </p>
        )}
        <div className="flex gap-2">
          <Button type="submit" disabled={read.isPending || !isComplete}>
            {strings.readThread}
          </Button>
          {shown && <Button onClick={() => setShown(null)}>{strings.closeThread}</Button>}
        </div>
      </form>
      {shown && (
        <section aria-label={strings.messagesOf(shown.threadId)} className="flex flex-col gap-4 p-4">
          <p role="status" className="text-small text-soft">
            {strings.readIsLogged(shown.threadId)}
          </p>
          {shown.before !== null && (
            <Button className="self-start" disabled={read.isPending} onClick={() => read.mutate(shown)}>
              {strings.earlierMessages}
            </Button>
          )}
          {shown.records.length === 0 && <p>{strings.noMessages}</p>}
          {shown.records.map((each) => (
            <ReadMessage key={`${each.run_id} ${each.message.id} ${each.created_at}`} record={each} />
          ))}
        </section>
      )}
    </Section>
  );
}

function ReadMessage({ record }: { record: WireMessageRecord }) {
  const strings = useAccountStrings();
  const language = useLanguage();
  const message = messageOf(record.message, record.message.id ?? "", undefined, {});
  const name =
    message.role === "tool" ? (message.toolName ?? strings.writers.tool) : strings.writers[message.role];
  return (
    <article className="flex min-w-0 flex-col gap-1">
      <p className="text-small text-faint">
        {name} · {formatMoment(new Date(record.created_at), language)}
      </p>
      <MessageText message={message} />
      {message.toolCalls.map((call) => (
        <pre key={call.id} className="text-small whitespace-pre-wrap [overflow-wrap:anywhere]">
          {call.name} {argsText(call)}
        </pre>
      ))}
    </article>
  );
}

function MessageText({ message: { role, text } }: { message: Message }) {
  if (text === "") return null;
  if (role === "assistant") return <Markdown text={text} growing={false} />;
  const look = role === "tool" ? "font-mono text-small" : "";
  return <p className={`whitespace-pre-wrap [overflow-wrap:anywhere] ${look}`}>{text}</p>;
}
