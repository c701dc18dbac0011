/** State of the page and its actions. */

import { type ActiveAgent, LEAD_AGENT } from "@/api/assistants";
import type { ModelInfo, ModelsAnswer, SandboxInfo, Starter, WaitsFor, WireThread } from "@/api/wire";
import { NO_RUN } from "@/run/conversation";
import { type Conversation, EMPTY_CONVERSATION, type RunEvent, reduce } from "@/run/reduce";
import type { Mode } from "@/state/modes";
import type { Preferences } from "@/state/preferences";

export type LoadState<T> =
  | { readonly phase: "loading" }
  | { readonly phase: "ready"; readonly value: T }
  | { readonly phase: "failed"; readonly problem: Problem };

/** Reason of a failed request. */
export type Problem = "unreachable" | "missing" | "refused";

export interface Thread {
  readonly id: string;
  readonly title: string | null;
  readonly updatedAt: string;
  readonly status: WireThread["status"];
  /** The user set the title; generated titles do not replace it. */
  readonly renamed: boolean;
  readonly pinned: boolean;
  readonly archived: boolean;
  readonly waitsFor: WaitsFor | null;
}

/** A change of a thread, with the state before it. */
export interface ThreadChange {
  readonly kind: "renamed" | "pinned" | "unpinned" | "archived" | "unarchived" | "refused" | "unexported";
  readonly before: Thread;
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
  readonly threads: LoadState<readonly Thread[]>;
  /** The server has more threads. */
  readonly moreThreads: boolean;
  /** The last change that can be undone. */
  readonly changed: ThreadChange | null;
  /** Hidden thread whose deletion can be undone. */
  readonly deleted: Thread | null;
  readonly models: LoadState<ModelsAnswer>;
  readonly starters: readonly Starter[];
  /** Null until loaded. */
  readonly sandbox: SandboxInfo | null;
  readonly preferences: Preferences;
  /** Drafts by thread id; null is the new thread. */
  readonly drafts: ReadonlyMap<string | null, string>;
  readonly drawerOpen: boolean;
  readonly paletteOpen: boolean;
  readonly online: boolean;
}

export type PageAction =
  | { readonly type: "visited"; readonly threadId: string | null }
  | { readonly type: "opened" }
  | { readonly type: "openFailed"; readonly problem: Problem }
  | { readonly type: "agentResolved"; readonly activeAgent: ActiveAgent }
  | { readonly type: "run"; readonly event: RunEvent }
  | { readonly type: "threadsListed"; readonly threads: readonly Thread[]; readonly more: boolean }
  | { readonly type: "threadsContinued"; readonly threads: readonly Thread[]; readonly more: boolean }
  | { readonly type: "threadsFailed"; readonly problem: Problem }
  | { readonly type: "threadTouched"; readonly thread: Thread }
  | { readonly type: "threadChanged"; readonly thread: Thread; readonly change: ThreadChange | null }
  | { readonly type: "threadChangeDismissed" }
  | { readonly type: "threadDeleted"; readonly thread: Thread }
  | { readonly type: "deletionUndone"; readonly thread: Thread }
  | { readonly type: "deletionFinished"; readonly threadId: string }
  | { readonly type: "modelsListed"; readonly models: ModelsAnswer }
  | { readonly type: "modelsFailed"; readonly problem: Problem }
  | { readonly type: "startersListed"; readonly starters: readonly Starter[] }
  | { readonly type: "sandboxLoaded"; readonly sandbox: SandboxInfo }
  | { readonly type: "preferencesChanged"; readonly change: Partial<Preferences> }
  | { readonly type: "draftChanged"; readonly text: string }
  | { readonly type: "drawerToggled"; readonly open: boolean }
  | { readonly type: "paletteToggled"; readonly open: boolean }
  | { readonly type: "onlineChanged"; readonly online: boolean };

export function initialPage(threadId: string | null, preferences: Preferences, online: boolean): Page {
  return {
    threadId,
    opening: threadId === null ? { phase: "ready", value: null } : { phase: "loading" },
    conversation: EMPTY_CONVERSATION,
    cached: new Map(),
    stale: false,
    activeAgent: LEAD_AGENT,
    threads: { phase: "loading" },
    moreThreads: false,
    changed: null,
    deleted: null,
    models: { phase: "loading" },
    starters: [],
    sandbox: null,
    preferences,
    drafts: new Map(),
    drawerOpen: false,
    paletteOpen: false,
    online,
  };
}

export function reducePage(page: Page, action: PageAction): Page {
  switch (action.type) {
    case "visited":
      return visit(page, action.threadId);
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
    case "onlineChanged":
      return { ...page, online: action.online };
    case "modelsListed":
      return { ...page, models: { phase: "ready", value: action.models } };
    case "modelsFailed":
      return { ...page, models: { phase: "failed", problem: action.problem } };
    case "sandboxLoaded":
      return { ...page, sandbox: action.sandbox };
    case "startersListed":
      return { ...page, starters: action.starters };
    default:
      return reduceThreads(page, action);
  }
}

type ThreadAction = Extract<PageAction, { readonly type: `thread${string}` | `deletion${string}` }>;

function reduceThreads(page: Page, action: ThreadAction): Page {
  switch (action.type) {
    case "threadsListed": {
      const value = action.threads.filter((thread) => thread.id !== page.deleted?.id);
      return { ...page, threads: { phase: "ready", value }, moreThreads: action.more };
    }
    case "threadsContinued":
      return {
        ...withThreads(page, (threads) => continued(threads, action.threads)),
        moreThreads: action.more,
      };
    case "threadsFailed":
      // Keep the threads already listed.
      if (page.threads.phase === "ready") return page;
      return { ...page, threads: { phase: "failed", problem: action.problem } };
    case "threadTouched":
      return withThreads(page, (threads) => [action.thread, ...without(threads, action.thread.id)]);
    case "threadChanged":
      return {
        ...withThreads(page, (threads) =>
          threads.map((thread) => (thread.id === action.thread.id ? action.thread : thread)),
        ),
        changed: action.change,
      };
    case "threadChangeDismissed":
      return { ...page, changed: null };
    case "threadDeleted":
      return {
        ...withThreads(page, (threads) => without(threads, action.thread.id)),
        deleted: action.thread,
        changed: null,
      };
    case "deletionUndone":
      return { ...withThreads(page, (threads) => inserted(threads, action.thread)), deleted: null };
    case "deletionFinished":
      return page.deleted?.id === action.threadId ? { ...page, deleted: null } : page;
  }
}

export function currentDraft({ drafts, threadId }: Page): string {
  return drafts.get(threadId) ?? "";
}

/** Return the preferred model if it exists, else the server's default. */
export function currentModel(page: Page): ModelInfo | null {
  if (page.models.phase !== "ready") return null;
  const { models, default: fallback } = page.models.value;
  const named = (name: string | null) => models.find((model) => model.name === name);
  return named(page.preferences.model) ?? named(fallback) ?? models[0] ?? null;
}

/** Return the mode chosen in this thread, else the last one chosen. */
export function currentMode({ preferences, threadId }: Page): Mode {
  return preferences.modes[threadId ?? ""] ?? preferences.mode;
}

export function modelName(model: ModelInfo): string {
  return model.display_name ?? model.name;
}

function visit(page: Page, threadId: string | null): Page {
  const fresh = initialPage(threadId, page.preferences, page.online);
  return {
    ...page,
    threadId,
    opening: fresh.opening,
    conversation: EMPTY_CONVERSATION,
    cached: cacheOpen(page),
    stale: false,
    activeAgent: begins(page, threadId) ? page.activeAgent : LEAD_AGENT,
    drawerOpen: false,
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

/** Return true if a new thread gets its id with this visit. */
function begins({ threadId: before, threads }: Page, threadId: string | null): boolean {
  const isListed = threads.phase === "ready" && threads.value.some(({ id }) => id === threadId);
  return before === null && threadId !== null && !isListed;
}

function withThreads(page: Page, change: (threads: readonly Thread[]) => readonly Thread[]): Page {
  const threads = page.threads.phase === "ready" ? page.threads.value : [];
  return { ...page, threads: { phase: "ready", value: change(threads) } };
}

function without(threads: readonly Thread[], id: string): readonly Thread[] {
  return threads.filter((thread) => thread.id !== id);
}

/** Append threads that are not listed yet. */
function continued(threads: readonly Thread[], next: readonly Thread[]): readonly Thread[] {
  const known = new Set(threads.map(({ id }) => id));
  return [...threads, ...next.filter(({ id }) => !known.has(id))];
}

/** Insert by time of update, newest first. */
function inserted(threads: readonly Thread[], thread: Thread): readonly Thread[] {
  return [...without(threads, thread.id), thread].sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
}
