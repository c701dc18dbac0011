/** Dictation with the speech recognition of the browser. Loaded if there is one. */

import { Mic, MicOff } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useLanguage } from "@/i18n/context";
import { useWorkspaceParts } from "@/i18n/workspaceParts";
import { useActions, usePage } from "@/state/context";
import { currentDraft } from "@/state/page";
import { IconButton } from "@/ui/IconButton";

/** The parts of the Web Speech API that are used here; TypeScript does not declare it. */
interface Recognition {
  lang: string;
  continuous: boolean;
  interimResults: boolean;
  onresult:
    | ((event: { readonly results: Iterable<ArrayLike<{ readonly transcript: string }>> }) => void)
    | null;
  onerror: ((event: { readonly error: string }) => void) | null;
  onend: (() => void) | null;
  start(): void;
  stop(): void;
  abort(): void;
}

declare global {
  interface Window {
    SpeechRecognition?: new () => Recognition;
    webkitSpeechRecognition?: new () => Recognition;
  }
}

type Fault = "denied" | "failed";

export default function Dictation() {
  const strings = useWorkspaceParts();
  const language = useLanguage();
  const actions = useActions();
  const draft = usePage(currentDraft);
  const threadId = usePage((page) => page.threadId);
  const active = useRef<Recognition | null>(null);
  const [listening, setListening] = useState(false);
  const [fault, setFault] = useState<Fault | null>(null);

  // Another thread has its own draft.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it ends when the thread changes
  useEffect(() => () => active.current?.abort(), [threadId]);

  const start = () => {
    const Recognizer = window.SpeechRecognition ?? window.webkitSpeechRecognition;
    if (Recognizer === undefined) return;
    const recognition = new Recognizer();
    const before = draft === "" || /\s$/.test(draft) ? draft : `${draft} `;
    recognition.lang = language === "zh" ? "zh-CN" : navigator.language;
    recognition.continuous = true;
    recognition.interimResults = true;
    recognition.onresult = ({ results }) => {
      if (active.current !== recognition) return;
      actions.draft(before + [...results].map((result) => result[0]?.transcript ?? "").join(""));
    };
    recognition.onerror = ({ error }) => {
      if (error === "aborted" || error === "no-speech") return;
      setFault(error === "not-allowed" || error === "service-not-allowed" ? "denied" : "failed");
    };
    recognition.onend = () => {
      if (active.current === recognition) active.current = null;
      setListening(false);
    };
    active.current = recognition;
    setFault(null);
    setListening(true);
    try {
      recognition.start();
    } catch {
      recognition.onend();
      setFault("failed");
    }
  };

  const label = listening ? strings.stopDictation : strings.dictate;
  return (
    <>
      <IconButton
        large
        icon={listening ? MicOff : Mic}
        label={label}
        aria-pressed={listening}
        onClick={() => (listening ? active.current?.stop() : start())}
        className="aria-pressed:animate-breathe aria-pressed:text-error"
      />
      {fault !== null && (
        <span role="alert" className="text-small text-error">
          {strings.dictationFaults[fault]}
        </span>
      )}
    </>
  );
}
