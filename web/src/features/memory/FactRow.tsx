/** Row of a fact with confidence and source. */

import { Ellipsis, Eraser, Pencil, Undo2 } from "lucide-react";
import { useId, useState } from "react";
import type { FactText, MemoryFact } from "@/api/memory";
import { useErasing } from "@/features/memory/Erasing";
import { FactForm, formatPercent } from "@/features/memory/FactForm";
import { FactSource } from "@/features/memory/FactSource";
import { ThreadLink } from "@/features/memory/ThreadLink";
import { useChange, useShown } from "@/features/memory/useMemory";
import { useLanguage, useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { useServer } from "@/state/server";
import { IconButton } from "@/ui/IconButton";
import { Menu, MenuItem } from "@/ui/Menu";
import { RelativeTime } from "@/ui/RelativeTime";

export function FactRow({ fact }: { fact: MemoryFact }) {
  const [editing, setEditing] = useState(false);
  return (
    <li className="px-4 py-3">
      {editing ? (
        <Edited fact={fact} onDone={() => setEditing(false)} />
      ) : (
        <Read fact={fact} onEdit={() => setEditing(true)} />
      )}
    </li>
  );
}

function Edited({ fact, onDone }: { fact: MemoryFact; onDone: () => void }) {
  const { save } = useStrings();
  const strings = useMemoryStrings();
  const { of, revision } = useShown();
  const server = useServer();
  const saving = useChange((text: FactText) => server.changeFact(of, fact.id, text, revision), {
    text: strings.changed,
    undoable: true,
  });
  return (
    <FactForm
      fact={fact}
      submitWord={save}
      busy={saving.isPending}
      problem={saving.error?.message ?? null}
      onSave={(text) => saving.mutate(text, { onSuccess: onDone })}
      onCancel={onDone}
    />
  );
}

function Read({ fact, onEdit }: { fact: MemoryFact; onEdit: () => void }) {
  const strings = useMemoryStrings();
  const language = useLanguage();
  const { isNow } = useShown();
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <>
      <div className="flex items-start gap-2">
        <div className="min-w-0 flex-1">
          <p className="whitespace-pre-wrap [overflow-wrap:anywhere]">{fact.content}</p>
          <p className="mt-1 flex flex-wrap items-center gap-x-2 text-small text-faint">
            <span className="text-soft">{strings.kinds[fact.category]}</span>
            <Dot />
            <span>{strings.confidenceLabel(formatPercent(fact.confidence, language))}</span>
            <Dot />
            <Origin source={fact.source} />
            <Dot />
            <RelativeTime at={fact.createdAt} />
            {isNow && (
              <>
                <Dot />
                <button
                  type="button"
                  aria-expanded={open}
                  aria-controls={id}
                  onClick={() => setOpen(!open)}
                  className="rounded-box text-soft underline underline-offset-2 hover:text-ink"
                >
                  {strings.why}
                </button>
              </>
            )}
          </p>
        </div>
        {isNow && <FactActions fact={fact} onEdit={onEdit} />}
      </div>
      <div id={id}>{open && <FactSource factId={fact.id} />}</div>
    </>
  );
}

function Dot() {
  return <span aria-hidden>·</span>;
}

function Origin({ source }: { source: string }) {
  const strings = useMemoryStrings();
  if (source === "manual") return strings.byHand;
  if (source === "deleted thread") return strings.fromGone;
  return (
    <span>
      {strings.fromThread} <ThreadLink threadId={source} />
    </span>
  );
}

function FactActions({ fact, onEdit }: { fact: MemoryFact; onEdit: () => void }) {
  const strings = useMemoryStrings();
  const { of } = useShown();
  const server = useServer();
  const erasing = useErasing();
  const taking = useChange(() => server.removeFact(of, fact.id), { text: strings.taken, undoable: true });
  const name = short(fact.content);
  return (
    <div className="flex shrink-0 flex-wrap items-center justify-end">
      <IconButton icon={Pencil} label={strings.editIt(name)} onClick={onEdit} />
      <Menu align="end" trigger={<IconButton icon={Ellipsis} label={strings.menu(name)} />}>
        <MenuItem icon={Undo2} label={strings.take} onChoose={() => taking.mutate(undefined)} />
        <MenuItem
          icon={Eraser}
          label={strings.erase}
          onChoose={() => erasing.ask({ kind: "fact", id: fact.id, content: fact.content })}
        />
      </Menu>
      {erasing.dialog}
      {taking.isError && (
        <p role="alert" className="w-full text-right text-small text-error">
          {sentence(taking.error.message)}
        </p>
      )}
    </div>
  );
}

const LONGEST = 60;

/** Shorten a text for labels. */
export function short(text: string): string {
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}…`;
}
