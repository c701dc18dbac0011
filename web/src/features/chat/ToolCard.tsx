/** A tool call in one line; opened, what went in and what came out. */

import {
  ChevronRight,
  FileText,
  FolderOpen,
  Globe,
  type LucideIcon,
  MessageCircleQuestionMark,
  PencilLine,
  Search,
  Terminal,
  Wrench,
} from "lucide-react";
import { useState } from "react";
import { useLanguage, useWords } from "@/app/context";
import { type ToolKind, toolKind, toolObject } from "@/features/chat/turns";
import type { Message, ToolCall } from "@/run/message";
import { durationWords } from "@/words/words";

const ICONS: Readonly<Record<ToolKind, LucideIcon>> = {
  run: Terminal,
  read: FileText,
  write: PencilLine,
  list: FolderOpen,
  search: Search,
  fetch: Globe,
  ask: MessageCircleQuestionMark,
  use: Wrench,
};

interface Props {
  readonly call: ToolCall;
  readonly result: Message | undefined;
  readonly running: boolean;
  readonly calledAt: number | null;
}

export function ToolCard({ call, result, running, calledAt }: Props) {
  const words = useWords();
  const language = useLanguage();
  const failed = result?.failed === true;
  // null: the reader has not decided; errors then open by themselves.
  const [chosen, setChosen] = useState<boolean | null>(null);
  const open = chosen ?? failed;

  const kind = toolKind(call.name);
  const Icon = ICONS[kind];
  const [progressive, past, failing] = words.toolVerbs[kind];
  const verb = failed ? failing : running || result === undefined ? progressive : past;
  const duration = durationOf(result, calledAt);

  return (
    <div className={`overflow-hidden rounded-box border ${failed ? "border-error/40" : "border-line"}`}>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setChosen(!open)}
        className="flex h-9 w-full items-center gap-2 px-3 text-left text-ui hover:bg-tint"
      >
        <Icon
          aria-hidden
          className={`size-4 shrink-0 ${failed ? "text-error" : running ? "animate-breathe text-running" : "text-faint"}`}
        />
        <span className={`shrink-0 ${failed ? "text-error" : "text-soft"}`}>{verb}</span>
        <code className="min-w-0 truncate font-mono text-small">{toolObject(call)}</code>
        <span className="ml-auto shrink-0 text-small text-faint">
          {duration !== null && durationWords(duration, language)}
          {result === undefined && !running && words.toolUnfinished}
        </span>
        <ChevronRight
          aria-hidden
          className={`size-4 shrink-0 text-faint transition-transform ${open ? "rotate-90" : ""}`}
        />
      </button>
      {open && (
        <div className="flex flex-col gap-3 border-t border-line bg-rail p-3 text-small">
          <Detail label={words.toolInput} text={argsText(call)} />
          {result !== undefined && (
            <Detail label={words.toolOutput} text={result.text || words.toolNoOutput} />
          )}
        </div>
      )}
    </div>
  );
}

function Detail({ label, text }: { label: string; text: string }) {
  return (
    <div>
      <div className="mb-1 text-faint">{label}</div>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: long output must be scrollable by keyboard
        tabIndex={0}
        className="max-h-80 overflow-auto font-mono whitespace-pre-wrap [overflow-wrap:anywhere]"
      >
        {text}
      </pre>
    </div>
  );
}

function durationOf(result: Message | undefined, calledAt: number | null): number | null {
  if (result?.settledAt == null || calledAt === null) return null;
  return result.settledAt - calledAt;
}

function argsText({ args }: ToolCall): string {
  return typeof args === "string" ? args : JSON.stringify(args, null, 2);
}
