/** To-do lists of `write_todos` calls. */

import { isRecord, parseJson } from "@/api/json";
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

/** Parse the list of a call; returns null if incomplete or invalid. */
export function todosOf({ args }: ToolCall): readonly Todo[] | null {
  const given = typeof args === "string" ? parseJson(args) : args;
  const todos = isRecord(given) ? given.todos : null;
  return Array.isArray(todos) && todos.every(isTodo) ? todos : null;
}

function isTodo(value: unknown): value is Todo {
  return isRecord(value) && typeof value.content === "string" && STATUSES.includes(value.status);
}
