/** Converts a server entry to and from the form. */

import { isRecord } from "@/api/json";
import type { McpConfig, McpEntry } from "@/api/tools";

export interface EntryDraft {
  readonly way: "stdio" | "http";
  readonly command: string;
  /** One per line. */
  readonly args: string;
  readonly env: string;
  readonly network: boolean;
  readonly url: string;
  readonly transport: "http" | "sse";
  readonly headers: string;
  readonly login: "none" | "browser";
  readonly description: string;
}

/** A line that cannot be parsed. */
export class BadLine extends Error {}

const BROWSER = "authorization_code";

export function draftOf(entry: McpEntry): EntryDraft {
  const type = entry.type ?? entry.transport ?? "stdio";
  const oauth = isRecord(entry.oauth) ? entry.oauth : {};
  return {
    way: type === "stdio" ? "stdio" : "http",
    command: text(entry.command),
    args: (Array.isArray(entry.args) ? entry.args : []).map(text).join("\n"),
    env: lines(entry.env, "="),
    network: entry.network === true,
    url: text(entry.url),
    transport: type === "sse" ? "sse" : "http",
    headers: lines(entry.headers, ": "),
    login: oauth.grant_type === BROWSER ? "browser" : "none",
    description: text(entry.description),
  };
}

/** Merge the form into the entry; unknown fields are kept. Throws `BadLine`. */
export function entryOf(draft: EntryDraft, former: McpEntry = {}): McpEntry {
  const { command, args, env, network, url, headers, oauth, type, transport, ...kept } = former;
  const description = draft.description.trim();
  if (draft.way === "stdio") {
    return {
      ...kept,
      type: "stdio",
      command: draft.command.trim(),
      args: linesIn(draft.args),
      env: pairsIn(draft.env, /^([^=\s]+)=(.*)$/),
      ...networkOf(draft, network),
      description,
    };
  }
  const login = loginOf(draft, oauth);
  return {
    ...kept,
    type: draft.transport,
    url: draft.url.trim(),
    headers: pairsIn(draft.headers, /^([^:\s]+):\s*(.*)$/),
    ...(login && { oauth: login }),
    description,
  };
}

/** A switch left as it was keeps the value: without one, programs that download packages reach public hosts. */
function networkOf(draft: EntryDraft, former: unknown): McpEntry {
  if (draft.network !== (former === true)) return { network: draft.network };
  return former === undefined ? {} : { network: former };
}

/** Other login kinds are set by the operator and kept. */
function loginOf({ login }: EntryDraft, former: unknown): McpEntry | null {
  const known = isRecord(former) ? former : null;
  if (login === "browser") {
    return known?.grant_type === BROWSER ? known : { grant_type: BROWSER };
  }
  return known === null || known.grant_type === BROWSER ? null : known;
}

type Entries = McpConfig["mcp_servers"];

/** Return the names of entries that are new or differ. */
export function changedNames(before: Entries, after: Entries): readonly string[] {
  return Object.keys(after).filter((name) => JSON.stringify(after[name]) !== JSON.stringify(before[name]));
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function lines(values: unknown, sign: string): string {
  return Object.entries(isRecord(values) ? values : {})
    .map(([name, value]) => `${name}${sign}${text(value)}`)
    .join("\n");
}

function linesIn(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

function pairsIn(text: string, shape: RegExp): Readonly<Record<string, string>> {
  const pairs = linesIn(text).map((line) => {
    const [, name, value] = shape.exec(line) ?? [];
    if (name === undefined || value === undefined) throw new BadLine(line);
    return [name, value] as const;
  });
  return Object.fromEntries(pairs);
}
