/** What actions work with; a test passes its own. */

import type { Gateway } from "@/api/gateway";
import { Refused, Unreachable } from "@/api/http";
import type { Page, PageAction, Problem } from "@/app/page";
import type { Preferences } from "@/app/preferences";
import type { Store } from "@/app/store";
import type { Patience } from "@/run/stream";

export interface Surroundings {
  readonly gateway: Gateway;
  readonly store: Store<Page, PageAction>;
  readonly patience: Patience;
  readonly newId: () => string;
  readonly now: () => number;
  /** Changes the address without asking the server. */
  readonly pushPath: (path: string) => void;
  readonly savePreferences: (preferences: Preferences) => void;
  /** The thread whose deletion is on its way to the server, known also to the page that comes after this one. */
  readonly deleting: { get(): string | null; set(threadId: string | null): void };
}

export function problemOf(error: unknown): Problem {
  if (error instanceof Unreachable) return "unreachable";
  return error instanceof Refused && error.status === 404 ? "missing" : "refused";
}
