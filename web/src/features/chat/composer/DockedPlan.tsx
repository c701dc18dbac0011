/** The plan of the active run, at hand above the composer. */

import { ChevronUp, ListTodo } from "lucide-react";
import { useMemo, useState } from "react";
import { TodoItems } from "@/features/chat/message/Checklist";
import { todosBeingWritten } from "@/features/chat/turns";
import { useStrings } from "@/i18n/context";
import type { ToolCall } from "@/run/message";
import { isOwn } from "@/run/message";
import { type Conversation, isActive } from "@/run/reduce";
import { todosOf, writesTodos } from "@/run/todos";
import { usePage } from "@/state/context";

export function DockedPlan() {
  const strings = useStrings();
  const [open, setOpen] = useState(false);
  const call = usePage(({ conversation }) => planOf(conversation));
  const writing = usePage(({ conversation }) => todosBeingWritten(conversation.streaming));
  // The last complete list stays while a new one streams.
  const todos = useMemo(
    () => (writing && todosOf(writing)) ?? (call && todosOf(call)) ?? [],
    [writing, call],
  );
  const done = todos.filter(({ status }) => status === "completed").length;
  if (call === undefined || todos.length === 0 || done === todos.length) return null;
  const current = todos.find(({ status }) => status === "in_progress") ?? todos[done];
  return (
    <section
      aria-label={strings.plan}
      className="mx-2 animate-appear rounded-t-box border border-b-0 border-line bg-rail text-small"
    >
      {open && (
        <div className="max-h-60 overflow-y-auto border-b border-line p-3">
          <TodoItems todos={todos} active label={strings.plan} />
        </div>
      )}
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="flex h-8 w-full items-center gap-2 rounded-t-box px-3 text-left text-soft hover:bg-tint hover:text-ink focus-visible:-outline-offset-2"
      >
        <ListTodo aria-hidden className="size-4 shrink-0 text-faint" />
        <span className="shrink-0 tabular-nums">{strings.planProgress(done, todos.length)}</span>
        <span className="min-w-0 flex-1 truncate">{current?.content}</span>
        <ChevronUp
          aria-hidden
          className={`size-4 shrink-0 transition-transform ${open ? "rotate-180" : ""}`}
        />
      </button>
    </section>
  );
}

/** Return the call with the latest plan of the active run. */
function planOf({ run, order, settled }: Conversation): ToolCall | undefined {
  if (!isActive(run)) return undefined;
  for (let place = order.length - 1; place >= 0; place--) {
    const message = settled.get(order[place] ?? "");
    if (isOwn(message)) return undefined;
    const call = message?.toolCalls.findLast(writesTodos);
    if (call !== undefined) return call;
  }
  return undefined;
}
