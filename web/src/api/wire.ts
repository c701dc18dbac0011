/** Wire formats: aliases of the generated schema, and event frames, which the schema does not describe. */

import type { components } from "@/api/schema";

export type Schemas = components["schemas"];

export type ModelInfo = Partial<Pick<Schemas["Model"], "key">> & Omit<Schemas["Model"], "key">;

export type KeyStatus = Schemas["Model"]["key"];

export type ModelsAnswer = {
  readonly models: readonly ModelInfo[];
  readonly default: string | null;
  /** Error in a changed configuration; the server uses the last valid version. */
  readonly problem?: string | null;
};

export type Starter = Schemas["Starter"];

export type ThreadStatus = Schemas["Thread"]["status"];

export type WireThread = Pick<
  Schemas["Thread"],
  "thread_id" | "created_at" | "updated_at" | "status" | "metadata" | "waits_for" | "project_id"
> & {
  readonly values: ThreadValues | null;
};

/** User input a thread waits for. */
export type WaitsFor = NonNullable<Schemas["Thread"]["waits_for"]>;

export interface ThreadValues {
  readonly title?: string | null;
  readonly messages?: readonly WireMessage[];
  /** Virtual paths of presented files. */
  readonly artifacts?: readonly string[] | null;
  /** Interrupt of a paused run. */
  readonly __interrupt__?: readonly WireInterrupt[] | null;
}

/** A message with its metadata. */
export type WireMessageRecord = Omit<Schemas["SaidMessage"], "message"> & { readonly message: WireMessage };

/** A page of messages, in order. */
export type WireMessagePage = Pick<Schemas["MessagePage"], "before"> & {
  readonly data: readonly WireMessageRecord[];
  /** Thread values; only on the last page. */
  readonly values: ThreadValues | null;
  /** The last event included; only on the last page. */
  readonly heard?: Schemas["Heard"] | null;
};

export interface WireInterrupt {
  readonly id?: string;
  readonly value?: unknown;
}

/** Decision on one action of an interrupt. */
export type Decision =
  | { readonly type: "approve" /** Also later calls like it in this thread. */; readonly scope?: "thread" }
  | { readonly type: "edit"; readonly edited_action: WireAction }
  | { readonly type: "reject"; readonly message?: string };

export interface WireAction {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** Sandbox status. */
export type SandboxInfo = Schemas["SandboxInfo"];

export type RunStatus = "pending" | "running" | "success" | "error" | "timeout" | "interrupted";

/** A run; the schema has its status as text. */
export type WireRun = Pick<Schemas["Run"], "run_id" | "created_at" | "updated_at"> &
  Partial<Pick<Schemas["Run"], "assistant_id" | "metadata">> & {
    readonly status: RunStatus;
    readonly error?: string | WireError | null;
  };

/** Query that selects the fields of `WireRun`: the requests of runs can be large. */
export const RUN_QUERY = "run_id,created_at,updated_at,assistant_id,metadata,status,error"
  .split(",")
  .map((field) => `select=${field}`)
  .join("&");

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
  /** Duration of tool calls, by the id of the result. */
  readonly took_ms?: Readonly<Record<string, number>>;
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
