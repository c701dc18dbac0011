/** Rewrites the draft, with undo. */

import { Sparkles, Undo2 } from "lucide-react";
import { useState } from "react";
import { useLanguage, useStrings } from "@/i18n/context";
import { useActions, useFiles, usePage } from "@/state/context";
import { useFeature } from "@/state/server";
import { IconButton } from "@/ui/IconButton";

// Shorter texts are not rewritten.
const WORTH_POLISHING = 12;

export function PolishButton({ draft }: { draft: string }) {
  const strings = useStrings();
  const actions = useActions();
  const files = useFiles();
  const language = useLanguage();
  const threadId = usePage((page) => page.threadId);
  const offered = useFeature("input_polish");
  const [busy, setBusy] = useState(false);
  const [before, setBefore] = useState<{ readonly text: string; readonly polished: string } | null>(null);

  const polish = async () => {
    setBusy(true);
    const polished = await files.polish(draft, language, threadId).catch(() => null);
    setBusy(false);
    if (polished === null || polished === draft) return;
    setBefore({ text: draft, polished });
    actions.draft(polished);
  };
  if (before !== null && before.polished === draft)
    return (
      <IconButton large icon={Undo2} label={strings.undoPolish} onClick={() => actions.draft(before.text)} />
    );
  if (!offered || draft.trim().length < WORTH_POLISHING) return null;
  return (
    <IconButton
      large
      icon={Sparkles}
      label={strings.polish}
      disabled={busy}
      className={busy ? "animate-breathe" : ""}
      onClick={() => void polish()}
    />
  );
}
