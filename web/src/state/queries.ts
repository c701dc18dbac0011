/** Rules and keys shared by queries. */

import type { UseQueryResult } from "@tanstack/react-query";
import { ApiError, NetworkError } from "@/api/http";

const TRIES = 3;

/** Reason of a failed request. */
export type Problem = "unreachable" | "missing" | "refused";

export type LoadState<T> =
  | { readonly phase: "loading" }
  | { readonly phase: "ready"; readonly value: T }
  | { readonly phase: "failed"; readonly problem: Problem };

/** Options of queries that fail at once and also run offline, so that a message never waits for a retry. */
export const IMMEDIATE = { retry: false, networkMode: "always" } as const;

/** Retry network errors, not error responses. */
export function retryWhenAway(failures: number, error: Error): boolean {
  return error instanceof NetworkError && failures < TRIES;
}

export function toProblem(error: unknown): Problem {
  if (error instanceof NetworkError) return "unreachable";
  return error instanceof ApiError && error.status === 404 ? "missing" : "refused";
}

/** Return the state of a query; loaded data stays ready when a refetch fails. */
export function loadState<T>({ data, isError, error }: UseQueryResult<T>): LoadState<T> {
  if (data !== undefined) return { phase: "ready", value: data };
  return isError ? { phase: "failed", problem: toProblem(error) } : { phase: "loading" };
}

/** Query key of the projects; keys of one project begin with it. */
export const PROJECTS_KEY: readonly string[] = ["projects"];

/** Query key of a memory; null is the shared one. */
export function memoryKey(agent: string | null): readonly string[] {
  return ["memory", agent ?? ""];
}
