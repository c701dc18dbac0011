/** The agent's to-do list, as its calls write it. */

import { isRecord, parseJson } from "@/run/json";
import type { ToolCall } from "@/run/message";

export type TodoStatus = "pending" | "in_progress" | "completed";

export interface Todo {
  readonly content: string;
  readonly status: TodoStatus;
}

const STATUSES: readonly unknown[] = ["pending", "in_progress", "completed"] satisfies TodoStatus[];

export function writesTodos({ name }: ToolCall): boolean {
  return name === "write_todos";
}

/** The list a call writes, or null while its arguments are not complete, and where they never were a list. */
export function todosOf({ args }: ToolCall): readonly Todo[] | null {
  const given = typeof args === "string" ? parseJson(args) : args;
  const todos = isRecord(given) ? given.todos : null;
  return Array.isArray(todos) && todos.every(isTodo) ? todos : null;
}

function isTodo(value: unknown): value is Todo {
  return isRecord(value) && typeof value.content === "string" && STATUSES.includes(value.status);
}
