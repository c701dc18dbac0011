/** A thread as a file to keep. */

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

/** What people and the agent said, with a line for each tool call; what is hidden on the page stays out. */
export function toMarkdown(title: string, messages: readonly WireMessage[]): string {
  const said = messages.filter((message) => message.additional_kwargs?.hide_from_ui !== true).flatMap(parts);
  return `${[`# ${oneLine(title)}`, ...said].join("\n\n")}\n`;
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
  const written = oneLine(JSON.stringify(args) ?? "").replaceAll("`", "'");
  if (written === "" || written === "{}") return "";
  return `\`${written.length > LONGEST_ARGUMENTS ? `${written.slice(0, LONGEST_ARGUMENTS)}…` : written}\``;
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

/** A name that every system takes for a file. */
function fileNameOf(title: string): string {
  const safe = oneLine(title.replace(/[\\/:*?"<>|\p{Cc}]/gu, " ")).slice(0, 80);
  return safe.replace(/^[. ]+|[. ]+$/g, "") || "thread";
}
