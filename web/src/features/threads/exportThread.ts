/** Exports a thread. */

import type { ContentBlock, ThreadValues, WireMessage } from "@/api/wire";

export type ExportFormat = "md" | "json";

export interface ExportedFile {
  readonly name: string;
  readonly type: string;
  readonly text: string;
}

export function exportThread(title: string, values: ThreadValues, format: ExportFormat): ExportedFile {
  const name = `${fileNameOf(title)}.${format}`;
  if (format === "json") {
    return { name, type: "application/json", text: `${JSON.stringify({ title, ...values }, null, 2)}\n` };
  }
  return { name, type: "text/markdown", text: toMarkdown(title, values.messages ?? []) };
}

/** Render visible messages as Markdown, with one line per tool call. */
export function toMarkdown(title: string, messages: readonly WireMessage[]): string {
  const entries = messages
    .filter((message) => message.additional_kwargs?.hide_from_ui !== true)
    .flatMap(parts);
  return `${[`# ${oneLine(title)}`, ...entries].join("\n\n")}\n`;
}

function parts(message: WireMessage): readonly string[] {
  const text = textOf(message).trim();
  if (message.type === "human") return text === "" ? [] : ["## 🧑", text];
  if (message.type !== "ai") return [];
  const calls = (message.tool_calls ?? []).map(({ name, args }) => `- \`${name}\` ${shortened(args)}`.trim());
  if (text === "" && calls.length === 0) return [];
  return ["## 🦌", ...(text === "" ? [] : [text]), ...(calls.length === 0 ? [] : [calls.join("\n")])];
}

const LONGEST_ARGUMENTS = 200;

function shortened(args: unknown): string {
  const json = oneLine(JSON.stringify(args) ?? "").replaceAll("`", "'");
  if (json === "" || json === "{}") return "";
  return `\`${json.length > LONGEST_ARGUMENTS ? `${json.slice(0, LONGEST_ARGUMENTS)}…` : json}\``;
}

function textOf({ content }: WireMessage): string {
  if (content == null || typeof content === "string") return content ?? "";
  return content
    .map((block: string | ContentBlock) =>
      typeof block === "string" ? block : block.type === "text" ? (block.text ?? "") : "",
    )
    .join("");
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** Return a portable file name. */
function fileNameOf(title: string): string {
  const safe = oneLine(title.replace(/[\\/:*?"<>|\p{Cc}]/gu, " ")).slice(0, 80);
  return safe.replace(/^[. ]+|[. ]+$/g, "") || "thread";
}
