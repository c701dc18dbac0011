/** Editable memory summaries. */

import { Pencil } from "lucide-react";
import { useState } from "react";
import type { MemoryDocument, SummaryKey, SummaryText } from "@/api/memory";
import { useChange, useShown } from "@/features/memory/useMemory";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";
import { IconButton } from "@/ui/IconButton";
import { RelativeTime } from "@/ui/RelativeTime";

export function Summaries({ document }: { document: MemoryDocument }) {
  const strings = useMemoryStrings();
  const known = (Object.keys(strings.summaryNames) as SummaryKey[]).flatMap((key) => {
    const found = summaryIn(document, key);
    return found.summary === "" ? [] : [[key, found] as const];
  });
  return (
    <section aria-label={strings.summaries}>
      <h2 className="mb-2 text-title font-semibold">{strings.summaries}</h2>
      {known.length === 0 ? (
        <p className="text-faint">{strings.noSummaries}</p>
      ) : (
        <ul className="divide-y divide-line rounded-box border border-line">
          {known.map(([key, summary]) => (
            <Row key={key} name={key} summary={summary} />
          ))}
        </ul>
      )}
    </section>
  );
}

const NONE: SummaryText = { summary: "", updatedAt: "" };

export function summaryIn(document: MemoryDocument, key: SummaryKey): SummaryText {
  const [part = "", name = ""] = key.split(".");
  const summaries: Readonly<Record<string, SummaryText>> = part === "user" ? document.user : document.history;
  return summaries[name] ?? NONE;
}

function Row({ name: key, summary }: { name: SummaryKey; summary: SummaryText }) {
  const strings = useMemoryStrings();
  const { isNow } = useShown();
  const [editing, setEditing] = useState(false);
  const name = strings.summaryNames[key];
  return (
    <li className="px-4 py-3">
      <div className="flex items-center gap-2">
        <h3 className="font-medium">{name}</h3>
        <span className="text-small text-faint">
          <RelativeTime at={summary.updatedAt} />
        </span>
        {isNow && !editing && (
          <IconButton
            icon={Pencil}
            label={strings.editIt(name)}
            onClick={() => setEditing(true)}
            className="-my-1 ml-auto"
          />
        )}
      </div>
      {editing ? (
        <Editor name={key} text={summary.summary} onDone={() => setEditing(false)} />
      ) : (
        <p className="mt-1 leading-relaxed whitespace-pre-wrap text-soft [overflow-wrap:anywhere]">
          {summary.summary}
        </p>
      )}
    </li>
  );
}

function Editor({ name: key, text: first, onDone }: { name: SummaryKey; text: string; onDone: () => void }) {
  const page = useStrings();
  const strings = useMemoryStrings();
  const { of, revision } = useShown();
  const server = useServer();
  const [text, setText] = useState(first);
  const saving = useChange((text: string) => server.writeSummary(of, key, text, revision), {
    text: strings.changed,
    undoable: true,
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        saving.mutate(text, { onSuccess: onDone });
      }}
      onKeyDown={(event) => event.key === "Escape" && onDone()}
      className="mt-2 flex flex-col gap-3"
    >
      <textarea
        ref={focusOnMount}
        value={text}
        rows={3}
        maxLength={20_000}
        onChange={(event) => setText(event.target.value)}
        aria-label={strings.summaryText(strings.summaryNames[key])}
        className="field-sizing-content max-h-[40dvh] min-h-20 resize-none rounded-box border border-line-strong bg-raised px-3 py-2 outline-none focus:border-accent"
      />
      {saving.isError && (
        <p role="alert" className="text-small text-error">
          {strings.notSaved} {sentence(saving.error.message)}
        </p>
      )}
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>{page.cancel}</Button>
        <Button type="submit" primary disabled={saving.isPending}>
          {page.save}
        </Button>
      </div>
    </form>
  );
}
