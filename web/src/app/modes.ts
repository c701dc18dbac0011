/** How much the agent does for one message, from a quick answer to a project. */

import type { RunSettings } from "@/api/gateway";
import type { ModelInfo } from "@/api/wire";

export type Mode = "flash" | "thinking" | "pro" | "ultra";

export const MODES: readonly Mode[] = ["flash", "thinking", "pro", "ultra"];

const EFFORTS = { flash: null, thinking: "low", pro: "medium", ultra: "high" } as const;

/** What a mode asks of a model, as far as the model can do it. */
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

// More would only make the browser's memory of this page grow.
const REMEMBERED = 200;

/** The modes of threads with one more, the oldest forgotten. */
export function remembered(modes: Readonly<Record<string, Mode>>, threadId: string, mode: Mode) {
  const others = Object.entries(modes).filter(([id]) => id !== threadId);
  return Object.fromEntries([...others.slice(1 - REMEMBERED), [threadId, mode] as const]);
}
