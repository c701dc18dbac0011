/** Clarification questions. */

import { isRecord } from "@/api/json";

export interface Option {
  readonly id: string;
  readonly label: string;
  /** Message sent for the option. */
  readonly value: string;
}

export interface Question {
  readonly text: string;
  readonly context: string;
  readonly options: readonly Option[];
}

const VERSION = 1;
const INPUT_MODES: readonly unknown[] = ["free_text", "choice_with_other"];

/** Parse the question of a tool artifact; returns null for unknown formats. */
export function questionOf(artifact: unknown): Question | null {
  const asked = isRecord(artifact) ? artifact.human_input : null;
  if (!isRecord(asked) || asked.version !== VERSION || asked.kind !== "human_input_request") return null;
  const { question, context = null, options = [], input_mode } = asked;
  if (!INPUT_MODES.includes(input_mode) || typeof question !== "string" || question.trim() === "")
    return null;
  if (context !== null && typeof context !== "string") return null;
  if (!Array.isArray(options) || !options.every(isOption)) return null;
  return { text: question, context: context ?? "", options };
}

function isOption(value: unknown): value is Option {
  return isRecord(value) && [value.id, value.label, value.value].every((text) => typeof text === "string");
}
