/** Confirmation of a permanent deletion. */

import { useState } from "react";
import type { MemoryDocument } from "@/api/memory";
import { useChange, useShown } from "@/features/memory/useMemory";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";

/** Target of the deletion. */
export type Erasable =
  | { readonly kind: "fact"; readonly id: string; readonly content: string }
  | { readonly kind: "thread"; readonly id: string }
  | { readonly kind: "all" };

export function Erasing({ what, onClose }: { what: Erasable; onClose: () => void }) {
  const { cancel } = useStrings();
  const strings = useMemoryStrings();
  const erase = useErasure(what);
  const erasing = useChange(erase, { text: strings.erased, undoable: false });
  const hints = { fact: strings.eraseFactHint, thread: strings.eraseThreadHint, all: strings.eraseAllHint };
  return (
    <Dialog label={strings.erasing[what.kind]} onClose={onClose} className="w-[min(28rem,94vw)]">
      <div className="flex flex-col gap-3 p-5">
        <h2 className="text-title font-semibold">{strings.erasing[what.kind]}</h2>
        {what.kind === "fact" && (
          <p className="rounded-box bg-tint px-3 py-2 [overflow-wrap:anywhere]">{what.content}</p>
        )}
        <p className="text-soft">
          {hints[what.kind]} <strong className="font-medium text-ink">{strings.eraseWarning}</strong>
        </p>
        {erasing.isError && (
          <p role="alert" className="text-error">
            {strings.notErased} {sentence(erasing.error.message)}
          </p>
        )}
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={onClose}>{cancel}</Button>
          <Button
            className="border-error text-error"
            disabled={erasing.isPending}
            onClick={() => erasing.mutate(undefined, { onSuccess: onClose })}
          >
            {strings.erase}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

function useErasure(what: Erasable): () => Promise<MemoryDocument> {
  const { of } = useShown();
  const server = useServer();
  return () => {
    if (what.kind === "fact") return server.eraseFact(of, what.id);
    return what.kind === "thread" ? server.eraseLearnedIn(of, what.id) : server.eraseMemory(of);
  };
}

/** Return the target and the function that asks. */
export function useErasing() {
  const [what, setWhat] = useState<Erasable | null>(null);
  return { ask: setWhat, dialog: what && <Erasing what={what} onClose={() => setWhat(null)} /> };
}
