/** Modes: how much work the agent does for one message. */

import type { RunSettings } from "@/api/gateway";
import type { ModelInfo } from "@/api/wire";

export type Mode = "flash" | "thinking" | "pro" | "ultra";

export const MODES: readonly Mode[] = ["flash", "thinking", "pro", "ultra"];

const EFFORTS = { flash: null, thinking: "low", pro: "medium", ultra: "high" } as const;

/** Return the run settings of a mode, limited to what the model supports. */
export function settingsFor(mode: Mode, model: ModelInfo | null): RunSettings {
  return {
    model: model?.name ?? null,
    thinking: model?.supports_thinking === true ? mode !== "flash" : null,
    planMode: mode === "pro" || mode === "ultra",
    subagents: mode === "ultra",
    effort: model?.supports_reasoning_effort === true ? EFFORTS[mode] : null,
  };
}

export function isMode(value: unknown): value is Mode {
  return MODES.some((mode) => mode === value);
}

// Bounds the size of the stored preferences.
const REMEMBERED = 200;

/** Add a thread's mode and drop the oldest entries. */
export function rememberMode(modes: Readonly<Record<string, Mode>>, threadId: string, mode: Mode) {
  return rememberFor(modes, threadId, mode);
}

/** Add something about a thread and drop the oldest entries. */
export function rememberFor<T>(known: Readonly<Record<string, T>>, threadId: string, value: T) {
  const others = Object.entries(known).filter(([id]) => id !== threadId);
  return Object.fromEntries([...others.slice(1 - REMEMBERED), [threadId, value] as const]);
}
