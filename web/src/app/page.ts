/** The state of the whole page and everything that can happen to it. */

import { type Answering, LEAD } from "@/api/assistants";
import type { ModelInfo, ModelsAnswer, SandboxInfo, Starter, WaitsFor, WireThread } from "@/api/wire";
import type { Mode } from "@/app/modes";
import type { Preferences } from "@/app/preferences";
import { NO_RUN } from "@/run/conversation";
import { type Conversation, EMPTY_CONVERSATION, type RunEvent, reduce } from "@/run/reduce";

export type Loading<T> =
  | { readonly phase: "loading" }
  | { readonly phase: "ready"; readonly value: T }
  | { readonly phase: "failed"; readonly problem: Problem };

/** Why something could not be had. */
export type Problem = "unreachable" | "missing" | "refused";

export interface Thread {
  readonly id: string;
  readonly title: string | null;
  readonly updatedAt: string;
  readonly status: WireThread["status"];
  /** Whether the user gave the title; the agent then has no say in it. */
  readonly renamed: boolean;
  readonly pinned: boolean;
  readonly archived: boolean;
  readonly waitsFor: WaitsFor | null;
}

/** What the user did to a thread, and how it was before. */
export interface ThreadChange {
  readonly kind: "renamed" | "pinned" | "unpinned" | "archived" | "unarchived" | "refused" | "unexported";
  readonly before: Thread;
}

export interface Page {
  /** null: a thread that begins with the next message. */
  readonly threadId: string | null;
  readonly opening: Loading<null>;
  readonly conversation: Conversation;
  /** The conversations that were open last, to be read where the server cannot be reached. */
  readonly kept: ReadonlyMap<string, Conversation>;
  /** Whether what is shown was kept, and may be old. */
  readonly stale: boolean;
  readonly answering: Answering;
  readonly threads: Loading<readonly Thread[]>;
  /** Whether the server has threads that are not listed yet. */
  readonly moreThreads: boolean;
  /** The newest change of a thread that can be undone. */
  readonly changed: ThreadChange | null;
  /** Deleted for the eye; still to be had back. */
  readonly deleted: Thread | null;
  readonly models: Loading<ModelsAnswer>;
  readonly starters: readonly Starter[];
  /** null: not known. */
  readonly sandbox: SandboxInfo | null;
  readonly preferences: Preferences;
  /** What stands in the composer of each thread; null is the one that has not begun. */
  readonly drafts: ReadonlyMap<string | null, string>;
  readonly drawerOpen: boolean;
  readonly paletteOpen: boolean;
  readonly online: boolean;
}

export type PageAction =
  | { readonly type: "visited"; readonly threadId: string | null }
  | { readonly type: "opened" }
  | { readonly type: "open failed"; readonly problem: Problem }
  | { readonly type: "agent known"; readonly answering: Answering }
  | { readonly type: "run"; readonly event: RunEvent }
  | { readonly type: "threads listed"; readonly threads: readonly Thread[]; readonly more: boolean }
  | { readonly type: "threads continued"; readonly threads: readonly Thread[]; readonly more: boolean }
  | { readonly type: "threads failed"; readonly problem: Problem }
  | { readonly type: "thread touched"; readonly thread: Thread }
  | { readonly type: "thread changed"; readonly thread: Thread; readonly change: ThreadChange | null }
  | { readonly type: "thread change seen" }
  | { readonly type: "thread deleted"; readonly thread: Thread }
  | { readonly type: "deletion undone"; readonly thread: Thread }
  | { readonly type: "deletion final"; readonly threadId: string }
  | { readonly type: "models listed"; readonly models: ModelsAnswer }
  | { readonly type: "models failed"; readonly problem: Problem }
  | { readonly type: "starters listed"; readonly starters: readonly Starter[] }
  | { readonly type: "sandbox known"; readonly sandbox: SandboxInfo }
  | { readonly type: "preferred"; readonly change: Partial<Preferences> }
  | { readonly type: "drafted"; readonly text: string }
  | { readonly type: "drawer"; readonly open: boolean }
  | { readonly type: "palette"; readonly open: boolean }
  | { readonly type: "online"; readonly online: boolean };

export function initialPage(threadId: string | null, preferences: Preferences, online: boolean): Page {
  return {
    threadId,
    opening: threadId === null ? { phase: "ready", value: null } : { phase: "loading" },
    conversation: EMPTY_CONVERSATION,
    kept: new Map(),
    stale: false,
    answering: LEAD,
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
    case "open failed":
      return failToOpen(page, action.problem);
    case "agent known":
      return { ...page, answering: action.answering };
    case "run":
      return { ...page, conversation: reduce(page.conversation, action.event) };
    case "preferred":
      return { ...page, preferences: { ...page.preferences, ...action.change } };
    case "drafted":
      return { ...page, drafts: new Map(page.drafts).set(page.threadId, action.text) };
    case "drawer":
      return { ...page, drawerOpen: action.open };
    case "palette":
      return { ...page, paletteOpen: action.open };
    case "online":
      return { ...page, online: action.online };
    case "models listed":
      return { ...page, models: { phase: "ready", value: action.models } };
    case "models failed":
      return { ...page, models: { phase: "failed", problem: action.problem } };
    case "sandbox known":
      return { ...page, sandbox: action.sandbox };
    case "starters listed":
      return { ...page, starters: action.starters };
    default:
      return reduceThreads(page, action);
  }
}

type ThreadAction = Extract<PageAction, { readonly type: `thread${string}` | `deletion ${string}` }>;

function reduceThreads(page: Page, action: ThreadAction): Page {
  switch (action.type) {
    case "threads listed": {
      const value = action.threads.filter((thread) => thread.id !== page.deleted?.id);
      return { ...page, threads: { phase: "ready", value }, moreThreads: action.more };
    }
    case "threads continued":
      return {
        ...withThreads(page, (threads) => continued(threads, action.threads)),
        moreThreads: action.more,
      };
    case "threads failed":
      // What is already listed stays readable.
      if (page.threads.phase === "ready") return page;
      return { ...page, threads: { phase: "failed", problem: action.problem } };
    case "thread touched":
      return withThreads(page, (threads) => [action.thread, ...without(threads, action.thread.id)]);
    case "thread changed":
      return {
        ...withThreads(page, (threads) =>
          threads.map((thread) => (thread.id === action.thread.id ? action.thread : thread)),
        ),
        changed: action.change,
      };
    case "thread change seen":
      return { ...page, changed: null };
    case "thread deleted":
      return {
        ...withThreads(page, (threads) => without(threads, action.thread.id)),
        deleted: action.thread,
        changed: null,
      };
    case "deletion undone":
      return { ...withThreads(page, (threads) => inserted(threads, action.thread)), deleted: null };
    case "deletion final":
      return page.deleted?.id === action.threadId ? { ...page, deleted: null } : page;
  }
}

export function currentDraft({ drafts, threadId }: Page): string {
  return drafts.get(threadId) ?? "";
}

/** The model that answers next: the chosen one while it exists, else the server's default. */
export function currentModel(page: Page): ModelInfo | null {
  if (page.models.phase !== "ready") return null;
  const { models, default: fallback } = page.models.value;
  const named = (name: string | null) => models.find((model) => model.name === name);
  return named(page.preferences.model) ?? named(fallback) ?? models[0] ?? null;
}

/** How much the agent does for the next message: as chosen in this thread, else as chosen last. */
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
    kept: keep(page),
    stale: false,
    answering: begins(page, threadId) ? page.answering : LEAD,
    drawerOpen: false,
  };
}

// More would only make a day-long page grow.
const MOST_KEPT = 20;

/** What was loaded, with the conversation that is left now. */
function keep({ kept, threadId, conversation }: Page): Page["kept"] {
  if (threadId === null || conversation.order.length === 0) return kept;
  const others = [...kept].filter(([id]) => id !== threadId);
  return new Map([...others.slice(1 - MOST_KEPT), [threadId, conversation] as const]);
}

/** What was loaded before stays readable while the server is away. */
function failToOpen(page: Page, problem: Problem): Page {
  const kept = page.kept.get(page.threadId ?? "");
  if (problem !== "unreachable" || kept === undefined)
    return { ...page, opening: { phase: "failed", problem } };
  // Whether its run goes on is not known; what had come of its answer is.
  const settled = new Map([...kept.settled, ...kept.streaming]);
  const conversation = { ...kept, settled, streaming: new Map(), run: { ...NO_RUN, id: kept.run.id } };
  return { ...page, opening: { phase: "ready", value: null }, stale: true, conversation };
}

/** Whether a new thread goes on under an address of its own, which nobody has heard of yet. */
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

/** What is listed, and after it what was not listed before. */
function continued(threads: readonly Thread[], next: readonly Thread[]): readonly Thread[] {
  const known = new Set(threads.map(({ id }) => id));
  return [...threads, ...next.filter(({ id }) => !known.has(id))];
}

/** Newest first, as the server lists them. */
function inserted(threads: readonly Thread[], thread: Thread): readonly Thread[] {
  return [...without(threads, thread.id), thread].sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
}
