/** State of the page and its actions. */

import { type ActiveAgent, LEAD_AGENT } from "@/api/assistants";
import type { Strings } from "@/i18n/i18n";
import { NO_RUN } from "@/run/conversation";
import { type Conversation, EMPTY_CONVERSATION, type RunEvent, reduce } from "@/run/reduce";
import type { Mode } from "@/state/modes";
import type { Preferences } from "@/state/preferences";
import type { LoadState, Problem } from "@/state/queries";
import type { Thread } from "@/state/threadList";

/** A change of a thread, with the state before it. */
export interface ThreadChange {
  readonly kind: "renamed" | "pinned" | "unpinned" | "archived" | "unarchived" | "refused" | "unexported";
  readonly before: Thread;
}

export interface Connecting {
  readonly connectionId: string | null;
  /** Replace the key of this model instead. */
  readonly keyOf?: string;
}

/** A short message about something that was done. */
export interface Notice {
  readonly kind: keyof Strings["workspace"]["notices"];
  readonly detail?: string;
}

export interface Page {
  /** Null for a new thread without messages. */
  readonly threadId: string | null;
  readonly opening: LoadState<null>;
  readonly conversation: Conversation;
  /** Recently opened conversations, shown while the server is unreachable. */
  readonly cached: ReadonlyMap<string, Conversation>;
  /** True while a cached conversation is shown. */
  readonly stale: boolean;
  readonly activeAgent: ActiveAgent;
  /** The last change that can be undone. */
  readonly changed: ThreadChange | null;
  /** Hidden thread whose deletion can be undone. */
  readonly deleted: Thread | null;
  readonly preferences: Preferences;
  /** Drafts by thread id; null is the new thread. */
  readonly drafts: ReadonlyMap<string | null, string>;
  readonly drawerOpen: boolean;
  readonly paletteOpen: boolean;
  /** Open dialog that connects a model; with an id, it adds models to that connection. */
  readonly connecting: Connecting | null;
  readonly online: boolean;
  /** The next new thread is temporary. */
  readonly startsTemporary: boolean;
  /** Open thread that is deleted when it is left. */
  readonly temporaryId: string | null;
  readonly notice: Notice | null;
}

export type PageAction =
  | { readonly type: "visited"; readonly threadId: string | null; readonly isListed: boolean }
  | { readonly type: "opened" }
  | { readonly type: "openFailed"; readonly problem: Problem }
  | { readonly type: "agentResolved"; readonly activeAgent: ActiveAgent }
  | { readonly type: "run"; readonly event: RunEvent }
  | { readonly type: "threadChanged"; readonly change: ThreadChange | null }
  | { readonly type: "threadChangeDismissed" }
  | { readonly type: "threadDeleted"; readonly thread: Thread }
  | { readonly type: "deletionUndone" }
  | { readonly type: "deletionFinished"; readonly threadId: string }
  | { readonly type: "preferencesChanged"; readonly change: Partial<Preferences> }
  | { readonly type: "draftChanged"; readonly text: string }
  | { readonly type: "drawerToggled"; readonly open: boolean }
  | { readonly type: "paletteToggled"; readonly open: boolean }
  | { readonly type: "connectingChanged"; readonly connecting: Connecting | null }
  | { readonly type: "onlineChanged"; readonly online: boolean }
  | { readonly type: "temporaryChosen"; readonly on: boolean }
  | { readonly type: "temporaryEnded" }
  | { readonly type: "noticed"; readonly notice: Notice | null };

export function initialPage(threadId: string | null, preferences: Preferences, online: boolean): Page {
  return {
    threadId,
    opening: threadId === null ? { phase: "ready", value: null } : { phase: "loading" },
    conversation: EMPTY_CONVERSATION,
    cached: new Map(),
    stale: false,
    activeAgent: LEAD_AGENT,
    changed: null,
    deleted: null,
    preferences,
    drafts: new Map(),
    drawerOpen: false,
    paletteOpen: false,
    connecting: null,
    online,
    startsTemporary: false,
    temporaryId: null,
    notice: null,
  };
}

export function reducePage(page: Page, action: PageAction): Page {
  switch (action.type) {
    case "visited":
      return visit(page, action.threadId, action.isListed);
    case "opened":
      return { ...page, opening: { phase: "ready", value: null }, stale: false };
    case "openFailed":
      return failToOpen(page, action.problem);
    case "agentResolved":
      return { ...page, activeAgent: action.activeAgent };
    case "run":
      return { ...page, conversation: reduce(page.conversation, action.event) };
    case "preferencesChanged":
      return { ...page, preferences: { ...page.preferences, ...action.change } };
    case "draftChanged":
      return { ...page, drafts: new Map(page.drafts).set(page.threadId, action.text) };
    case "drawerToggled":
      return { ...page, drawerOpen: action.open };
    case "paletteToggled":
      return { ...page, paletteOpen: action.open };
    case "connectingChanged":
      return { ...page, connecting: action.connecting };
    case "onlineChanged":
      return { ...page, online: action.online };
    case "temporaryChosen":
      return { ...page, startsTemporary: action.on };
    case "temporaryEnded":
      return forgetTemporary(page);
    case "noticed":
      return { ...page, notice: action.notice };
    case "threadChanged":
      return { ...page, changed: action.change };
    case "threadChangeDismissed":
      return { ...page, changed: null };
    case "threadDeleted":
      return { ...page, deleted: action.thread, changed: null };
    case "deletionUndone":
      return { ...page, deleted: null };
    case "deletionFinished":
      return page.deleted?.id === action.threadId ? { ...page, deleted: null } : page;
  }
}

export function currentDraft({ drafts, threadId }: Page): string {
  return drafts.get(threadId) ?? "";
}

/** Return the mode chosen in this thread, else the last one chosen. */
export function currentMode({ preferences, threadId }: Page): Mode {
  return preferences.modes[threadId ?? ""] ?? preferences.mode;
}

function visit(page: Page, threadId: string | null, isListed: boolean): Page {
  const fresh = initialPage(threadId, page.preferences, page.online);
  // A new thread that gets its id with this visit keeps its agent.
  const begins = page.threadId === null && threadId !== null && !isListed;
  return {
    ...page,
    threadId,
    opening: fresh.opening,
    conversation: EMPTY_CONVERSATION,
    cached: cacheOpen(page),
    stale: false,
    activeAgent: begins ? page.activeAgent : LEAD_AGENT,
    drawerOpen: false,
    startsTemporary: false,
    temporaryId: begins && page.startsTemporary ? threadId : page.temporaryId,
  };
}

/** Drop all that the page knows of the temporary thread. */
function forgetTemporary({ temporaryId, cached, drafts, ...page }: Page): Page {
  const other = ([id]: readonly [string | null, unknown]) => id !== temporaryId;
  return {
    ...page,
    temporaryId: null,
    cached: new Map([...cached].filter(other)),
    drafts: new Map([...drafts].filter(other)),
  };
}

// Bounds memory use of a long-lived page.
const MAX_CACHED = 20;

/** Add the current conversation to the cache. */
function cacheOpen({ cached, threadId, conversation }: Page): Page["cached"] {
  if (threadId === null || conversation.order.length === 0) return cached;
  const others = [...cached].filter(([id]) => id !== threadId);
  return new Map([...others.slice(1 - MAX_CACHED), [threadId, conversation] as const]);
}

/** Show the cached conversation if the server is unreachable. */
function failToOpen(page: Page, problem: Problem): Page {
  const cached = page.cached.get(page.threadId ?? "");
  if (problem !== "unreachable" || cached === undefined)
    return { ...page, opening: { phase: "failed", problem } };
  // The state of its run is unknown; the received output is kept.
  const settled = new Map([...cached.settled, ...cached.streaming]);
  const conversation = { ...cached, settled, streaming: new Map(), run: { ...NO_RUN, id: cached.run.id } };
  return { ...page, opening: { phase: "ready", value: null }, stale: true, conversation };
}
