/** What the gateway says, as it says it. */

export interface ModelInfo {
  readonly name: string;
  readonly model: string;
  readonly display_name: string | null;
  readonly description: string | null;
  readonly supports_thinking: boolean;
  readonly supports_reasoning_effort: boolean;
  readonly supports_vision: boolean;
  readonly scripted: boolean;
  /** Whether it has the key it needs; missing: a server that does not say. */
  readonly key?: KeyStatus;
}

export type KeyStatus = "set" | "missing" | "not needed" | "unknown";

export interface ModelsAnswer {
  readonly models: readonly ModelInfo[];
  readonly default: string | null;
}

export interface Starter {
  readonly id: string;
  readonly title: string;
  readonly prompt: string;
  readonly is_plan_mode: boolean;
}

export type ThreadStatus = "idle" | "busy" | "error" | "interrupted";

export interface WireThread {
  readonly thread_id: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly status: ThreadStatus;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly values: ThreadValues | null;
  readonly waits_for?: WaitsFor | null;
}

/** What a thread waits for the user for. */
export type WaitsFor = "answer" | "approval";

export interface ThreadValues {
  readonly title?: string | null;
  readonly messages?: readonly WireMessage[];
  /** Virtual paths of the files the agent has presented. */
  readonly artifacts?: readonly string[] | null;
  /** What a paused run asks. */
  readonly __interrupt__?: readonly WireInterrupt[] | null;
}

/** A message, and what is known of it beyond its words. */
export interface SaidMessage {
  readonly message: WireMessage;
  readonly run_id: string;
  readonly created_at: string;
  readonly thought_ms: number | null;
  /** The run that began before this was said and went another way. */
  readonly left_behind_by: string | null;
}

/** Some of what was said in a thread, in its order. */
export interface SaidPage {
  readonly data: readonly SaidMessage[];
  /** What the thread holds besides messages; on the last page alone. */
  readonly values: ThreadValues | null;
  /** The newest event that the last page knows of. */
  readonly heard?: { readonly run_id: string; readonly seq: number } | null;
  /** Where the page before this one ends; null at the beginning. */
  readonly before: string | null;
}

export interface WireInterrupt {
  readonly id?: string;
  readonly value?: unknown;
}

/** How a paused run goes on: one for each action it asks about. */
export type Decision =
  | { readonly type: "approve" }
  | { readonly type: "edit"; readonly edited_action: WireAction }
  | { readonly type: "reject"; readonly message?: string };

export interface WireAction {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** Where commands of the agent run. */
export interface SandboxInfo {
  readonly tier: "isolated" | "container" | "host" | "none";
  readonly detail: string;
  readonly problem: string | null;
  readonly remedy: string | null;
}

export type RunStatus = "pending" | "running" | "success" | "error" | "timeout" | "interrupted";

export interface WireRun {
  readonly run_id: string;
  readonly assistant_id?: string;
  readonly status: RunStatus;
  readonly created_at: string;
  readonly updated_at: string;
  readonly error?: string | WireError | null;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface ContentBlock {
  readonly type: string;
  readonly text?: string;
  readonly thinking?: string;
  readonly reasoning?: string;
}

export type Content = string | readonly (string | ContentBlock)[] | null;

/** A whole message (`human`, `ai`, `tool`, `system`) or a piece of one (`AIMessageChunk` …). */
export interface WireMessage {
  readonly type: string;
  readonly id?: string | null;
  readonly content?: Content;
  readonly name?: string | null;
  readonly status?: string | null;
  readonly tool_call_id?: string | null;
  /** What a tool returned beside its text, for the page rather than for the model. */
  readonly artifact?: unknown;
  readonly tool_calls?: readonly WireToolCall[] | null;
  /** Calls whose arguments are not JSON. */
  readonly invalid_tool_calls?: readonly WireToolCall[] | null;
  readonly tool_call_chunks?: readonly WireToolCallChunk[] | null;
  readonly additional_kwargs?: Readonly<Record<string, unknown>> | null;
  readonly response_metadata?: Readonly<Record<string, unknown>> | null;
}

export interface WireToolCall {
  readonly id?: string | null;
  readonly name: string;
  readonly args: string | Readonly<Record<string, unknown>>;
}

export interface WireToolCallChunk {
  readonly index?: number | null;
  readonly id?: string | null;
  readonly name?: string | null;
  readonly args?: string | null;
}

export interface WireError {
  readonly error?: string;
  readonly name?: string;
  readonly message?: string;
  readonly detail?: string;
}

/** What one step of a run changed. */
export interface Changes {
  readonly messages?: readonly WireMessage[];
  readonly removed?: readonly string[];
  readonly values?: ThreadValues;
  /** How long the model thought about a message before it answered. */
  readonly thought_ms?: Readonly<Record<string, number>>;
}

/** One event of a run's journal. */
export type Frame =
  | { readonly event: "metadata"; readonly data: { readonly run_id: string; readonly thread_id?: string } }
  | { readonly event: "messages"; readonly data: readonly [WireMessage, unknown] }
  | { readonly event: "changes"; readonly data: Changes }
  | { readonly event: "custom"; readonly data: unknown }
  | { readonly event: "error"; readonly data: WireError }
  | { readonly event: "end"; readonly data: null };

const KNOWN_EVENTS: ReadonlySet<string> = new Set([
  "metadata",
  "messages",
  "changes",
  "custom",
  "error",
  "end",
]);

/** The frame an event stands for, or null for events of a newer server this page does not know. */
export function frameOf(event: string, data: string): Frame | null {
  if (!KNOWN_EVENTS.has(event)) return null;
  return { event, data: JSON.parse(data || "null") } as Frame;
}
