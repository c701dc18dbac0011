/** Dependencies of the actions; tests pass fakes. */

import type { QueryClient } from "@tanstack/react-query";
import type { Gateway } from "@/api/gateway";
import type { RetryPolicy } from "@/run/stream";
import type { Page, PageAction } from "@/state/page";
import type { Preferences } from "@/state/preferences";
import type { Store } from "@/state/store";

export interface Dependencies {
  readonly gateway: Gateway;
  readonly store: Store<Page, PageAction>;
  /** Cache of server state. */
  readonly queries: QueryClient;
  readonly retryPolicy: RetryPolicy;
  readonly newId: () => string;
  readonly now: () => number;
  /** Push a path onto the browser history. */
  readonly pushPath: (path: string) => void;
  readonly savePreferences: (preferences: Preferences) => void;
  /** Temporary thread of this tab, kept across a page reload. */
  readonly temporary: { get(): string | null; set(threadId: string | null): void };
  /** Thread being deleted, kept across a page reload. */
  readonly deleting: { get(): string | null; set(threadId: string | null): void };
}
