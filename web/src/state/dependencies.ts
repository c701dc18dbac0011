/** Dependencies of the actions; tests pass fakes. */

import type { Gateway } from "@/api/gateway";
import { ApiError, NetworkError } from "@/api/http";
import type { RetryPolicy } from "@/run/stream";
import type { Page, PageAction, Problem } from "@/state/page";
import type { Preferences } from "@/state/preferences";
import type { Store } from "@/state/store";

export interface Dependencies {
  readonly gateway: Gateway;
  readonly store: Store<Page, PageAction>;
  readonly retryPolicy: RetryPolicy;
  readonly newId: () => string;
  readonly now: () => number;
  /** Push a path onto the browser history. */
  readonly pushPath: (path: string) => void;
  readonly savePreferences: (preferences: Preferences) => void;
  /** Thread being deleted, kept across a page reload. */
  readonly deleting: { get(): string | null; set(threadId: string | null): void };
}

export function toProblem(error: unknown): Problem {
  if (error instanceof NetworkError) return "unreachable";
  return error instanceof ApiError && error.status === 404 ? "missing" : "refused";
}
