/** Fields of a form for a JSON schema, and the arguments that its values stand for. */

import { isRecord } from "@/api/json";

/** Names of strings. */
export type TrialProblem = "badJson" | "badNumber" | "needed";

export interface TrialField {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  /** Everything that is not a single value is entered as JSON. */
  readonly kind: "text" | "number" | "boolean" | "json";
  /** Values to choose from. */
  readonly options: readonly string[] | null;
  readonly initial: string;
}

interface Read {
  readonly args: Readonly<Record<string, unknown>>;
  readonly problems: Readonly<Record<string, TrialProblem>>;
}

/** Return the fields of an input schema; the server is not trusted to send a valid one. */
export function fieldsOf(schema: Readonly<Record<string, unknown>>): readonly TrialField[] {
  const properties = isRecord(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  return Object.entries(properties).map(([name, value]) => {
    const property = isRecord(value) ? value : {};
    const kind = kindOf(property);
    return {
      name,
      description: typeof property.description === "string" ? property.description : "",
      required: required.includes(name),
      kind,
      options: kind === "boolean" ? ["true", "false"] : kind === "text" ? choicesOf(property) : null,
      initial: initialOf(property.default, kind),
    };
  });
}

/** Return the arguments; an empty field is left out, and its absence is a problem only if it is required. */
export function argumentsOf(fields: readonly TrialField[], values: Readonly<Record<string, string>>): Read {
  const args: Record<string, unknown> = {};
  const problems: Record<string, TrialProblem> = {};
  for (const field of fields) {
    const value = values[field.name] ?? "";
    if (value.trim() === "") {
      if (field.required) problems[field.name] = "needed";
      continue;
    }
    const read = readValue(field, value);
    if ("problem" in read) problems[field.name] = read.problem;
    else args[field.name] = read.value;
  }
  return { args, problems };
}

function readValue(field: TrialField, text: string): { value: unknown } | { problem: TrialProblem } {
  if (field.kind === "text") return { value: text };
  if (field.kind === "boolean") return { value: text === "true" };
  if (field.kind === "number") {
    const value = Number(text);
    return Number.isFinite(value) ? { value } : { problem: "badNumber" };
  }
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { problem: "badJson" };
  }
}

function kindOf(property: Readonly<Record<string, unknown>>): TrialField["kind"] {
  const types = alternatives(property);
  if (types.length !== 1) return "json";
  if (types[0] === "string") return "text";
  if (types[0] === "number" || types[0] === "integer") return "number";
  return types[0] === "boolean" ? "boolean" : "json";
}

/** Return the types of a property without `null`, which an empty field stands for. */
function alternatives(property: Readonly<Record<string, unknown>>): readonly unknown[] {
  const branches = Array.isArray(property.anyOf) ? property.anyOf : [property];
  const types = branches.flatMap((branch) => (isRecord(branch) ? branch.type : undefined));
  return types.filter((type) => type !== "null");
}

function choicesOf({ enum: values }: Readonly<Record<string, unknown>>): readonly string[] | null {
  if (!Array.isArray(values) || !values.every((value) => typeof value === "string")) return null;
  return values;
}

function initialOf(value: unknown, kind: TrialField["kind"]): string {
  if (value === undefined || value === null) return "";
  if (kind === "json") return JSON.stringify(value, null, 1);
  return typeof value === "object" ? "" : String(value);
}
