/** To-do list of a turn, updated in place. */

import { Circle, CircleCheck, CircleDot, ListTodo, type LucideIcon } from "lucide-react";
import { useId, useMemo } from "react";
import { todosBeingWritten } from "@/features/chat/turns";
import { useStrings } from "@/i18n/context";
import type { Strings } from "@/i18n/i18n";
import { isActive } from "@/run/reduce";
import { type Todo, type TodoStatus, todosOf } from "@/run/todos";
import { usePage } from "@/state/context";

interface Props {
  readonly todos: readonly Todo[];
  /** True for the newest turn, whose list may change. */
  readonly current: boolean;
}

export function Checklist({ todos, current }: Props) {
  const strings = useStrings();
  const id = useId();
  const active = usePage(({ conversation }) => current && isActive(conversation.run));
  const writing = usePage(({ conversation }) =>
    current ? todosBeingWritten(conversation.streaming) : undefined,
  );
  // Show the last complete list while a new one streams.
  const latest = useMemo(() => (writing === undefined ? null : todosOf(writing)), [writing]);
  const shown = latest ?? todos;
  const done = shown.filter(({ status }) => status === "completed").length;
  return (
    <div className="rounded-box border border-line">
      <div className="flex h-9 items-center gap-2 px-3 text-ui text-soft">
        <ListTodo aria-hidden className="size-4 shrink-0 text-faint" />
        <span id={`${id}-name`}>{strings.todos}</span>
        {shown.length > 0 && (
          <span id={`${id}-count`} className="ml-auto text-small text-faint tabular-nums">
            {strings.todosDone(done, shown.length)}
          </span>
        )}
      </div>
      {shown.length > 0 && (
        <div className="border-t border-line px-3 py-3 text-ui">
          <TodoItems todos={shown} active={active} labelledBy={`${id}-name ${id}-count`} />
        </div>
      )}
    </div>
  );
}

interface ItemsProps {
  readonly todos: readonly Todo[];
  readonly active: boolean;
  readonly label?: string;
  readonly labelledBy?: string;
}

export function TodoItems({ todos, active, label, labelledBy }: ItemsProps) {
  return (
    <ol aria-label={label} aria-labelledby={labelledBy} className="flex flex-col gap-2">
      {todos.map((todo, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an item is its place in the list
        <Item key={index} todo={todo} active={active} />
      ))}
    </ol>
  );
}

interface Look {
  readonly icon: LucideIcon;
  readonly word: Extract<keyof Strings, `task${string}`>;
  readonly mark: string;
  readonly text: string;
}

const LOOKS: Readonly<Record<TodoStatus, Look>> = {
  completed: { icon: CircleCheck, word: "taskDone", mark: "text-done", text: "text-faint" },
  in_progress: { icon: CircleDot, word: "taskDoing", mark: "text-running", text: "font-medium" },
  pending: { icon: Circle, word: "taskOpen", mark: "text-faint", text: "text-soft" },
};

function Item({ todo, active }: { todo: Todo; active: boolean }) {
  const strings = useStrings();
  const { icon: Icon, word, mark, text } = LOOKS[todo.status];
  const breathes = active && todo.status === "in_progress";
  return (
    <li data-status={todo.status} className={`flex gap-2 ${text}`}>
      <Icon
        role="img"
        aria-label={strings[word]}
        className={`mt-0.5 size-4 shrink-0 ${mark} ${breathes ? "animate-breathe" : ""}`}
      />
      <span className="min-w-0 [overflow-wrap:anywhere]">{todo.content}</span>
    </li>
  );
}
