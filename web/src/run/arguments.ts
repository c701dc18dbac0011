/** Arguments of tool calls as fields of a form. */

import { type Fields, isRecord, parseJson } from "@/api/json";

/** Return a name as a label: "reply_to" is "Reply to". */
export function labelOf(name: string): string {
  const words = name
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replace(/[_-]+/g, " ")
    .trim()
    .toLowerCase();
  return words === "" ? name : words.charAt(0).toUpperCase() + words.slice(1);
}

/** Return true for lists and objects, which are shown and edited as JSON. */
export function isStructured(value: unknown): boolean {
  return Array.isArray(value) || isRecord(value);
}

/** Return the text of each argument, to be edited. */
export function argumentTexts(args: Fields): Readonly<Record<string, string>> {
  const texts = Object.entries(args).map(
    ([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value, null, 2)] as const,
  );
  return Object.fromEntries(texts);
}

/** Return the arguments with the edited texts; the name of the first that does not fit if there is one. */
export function editedArguments(
  args: Fields,
  texts: Readonly<Record<string, string>>,
): { readonly args: Fields; readonly wrong: string | null } {
  const edited: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(args)) {
    const text = texts[name] ?? "";
    const parsed = typeof value === "string" ? text : parseJson(text);
    if (typeof parsed !== typeof value || Array.isArray(parsed) !== Array.isArray(value))
      return { args, wrong: name };
    edited[name] = parsed;
  }
  return { args: edited, wrong: null };
}
