/** Wire formats of events and messages. */

export interface ModelInfo {
  readonly name: string;
  readonly model: string;
  readonly display_name: string | null;
  readonly description: string | null;
  readonly supports_thinking: boolean;
  readonly supports_reasoning_effort: boolean;
  readonly supports_vision: boolean;
  readonly scripted: boolean;
  /** Status of the API key; missing on servers that do not report it. */
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

/** User input a thread waits for. */
export type WaitsFor = "answer" | "approval";

export interface ThreadValues {
  readonly title?: string | null;
  readonly messages?: readonly WireMessage[];
  /** Virtual paths of presented files. */
  readonly artifacts?: readonly string[] | null;
  /** Interrupt of a paused run. */
  readonly __interrupt__?: readonly WireInterrupt[] | null;
}

/** A message with its metadata. */
export interface WireMessageRecord {
  readonly message: WireMessage;
  readonly run_id: string;
  readonly created_at: string;
  readonly thought_ms: number | null;
  /** The run that branched off before this message. */
  readonly left_behind_by: string | null;
}

/** A page of messages, in order. */
export interface WireMessagePage {
  readonly data: readonly WireMessageRecord[];
  /** Thread values; only on the last page. */
  readonly values: ThreadValues | null;
  /** The last event included; only on the last page. */
  readonly heard?: { readonly run_id: string; readonly seq: number } | null;
  /** Cursor of the previous page; null on the first page. */
  readonly before: string | null;
}

export interface WireInterrupt {
  readonly id?: string;
  readonly value?: unknown;
}

/** Decision on one action of an interrupt. */
export type Decision =
  | { readonly type: "approve" }
  | { readonly type: "edit"; readonly edited_action: WireAction }
  | { readonly type: "reject"; readonly message?: string };

export interface WireAction {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** Sandbox status. */
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

/** A complete message (`human`, `ai`, `tool`, `system`) or a chunk (`AIMessageChunk` …). */
export interface WireMessage {
  readonly type: string;
  readonly id?: string | null;
  readonly content?: Content;
  readonly name?: string | null;
  readonly status?: string | null;
  readonly tool_call_id?: string | null;
  /** Tool artifact for the page, not for the model. */
  readonly artifact?: unknown;
  readonly tool_calls?: readonly WireToolCall[] | null;
  /** Calls with invalid JSON arguments. */
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

/** State changes of one step. */
export interface Changes {
  readonly messages?: readonly WireMessage[];
  readonly removed?: readonly string[];
  readonly values?: ThreadValues;
  /** Reasoning time per message. */
  readonly thought_ms?: Readonly<Record<string, number>>;
}

/** One event of a run. */
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

/** Parse an event; returns null for unknown event types. */
export function frameOf(event: string, data: string): Frame | null {
  if (!KNOWN_EVENTS.has(event)) return null;
  return { event, data: JSON.parse(data || "null") } as Frame;
}
