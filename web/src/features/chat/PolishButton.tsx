/** Has what is written said better, and takes that back. */

import { Sparkles, Undo2 } from "lucide-react";
import { useState } from "react";
import { useActions, useFiles, useLanguage, usePage, useWords } from "@/app/context";
import { IconButton } from "@/ui/IconButton";

// Shorter texts have nothing to be polished.
const WORTH_POLISHING = 12;

export function PolishButton({ draft }: { draft: string }) {
  const words = useWords();
  const actions = useActions();
  const files = useFiles();
  const language = useLanguage();
  const threadId = usePage((page) => page.threadId);
  const [state, setState] = useState<"idle" | "busy" | "missing">("idle");
  const [before, setBefore] = useState<{ readonly text: string; readonly polished: string } | null>(null);

  const polish = async () => {
    setState("busy");
    const polished = await files.polish(draft, language, threadId).catch(() => draft);
    setState(polished === null ? "missing" : "idle");
    if (polished === null || polished === draft) return;
    setBefore({ text: draft, polished });
    actions.draft(polished);
  };
  if (before !== null && before.polished === draft)
    return <IconButton icon={Undo2} label={words.undoPolish} onClick={() => actions.draft(before.text)} />;
  if (state === "missing" || draft.trim().length < WORTH_POLISHING) return null;
  return (
    <IconButton
      icon={Sparkles}
      label={words.polish}
      disabled={state === "busy"}
      className={state === "busy" ? "animate-breathe" : ""}
      onClick={() => void polish()}
    />
  );
}
