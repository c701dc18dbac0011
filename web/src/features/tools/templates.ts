/** Entries of well-known MCP servers to start from; placeholders in angle brackets are replaced by the user. */

import type { trialStringsEn } from "@/i18n/trials";

export type TemplateName = keyof typeof trialStringsEn.templates;

const ENTRIES: Readonly<Record<TemplateName, object>> = {
  filesystem: {
    command: "npx",
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/mnt/user-data/workspace"],
  },
  fetch: { command: "uvx", args: ["mcp-server-fetch"] },
  github: {
    type: "http",
    url: "https://api.githubcopilot.com/mcp/",
    headers: { Authorization: "Bearer <token>" },
  },
  postgres: {
    command: "uvx",
    args: ["postgres-mcp", "--access-mode=restricted"],
    env: { DATABASE_URI: "postgresql://<user>:<password>@<host>:5432/<database>" },
  },
  browser: { command: "npx", args: ["-y", "@playwright/mcp@latest", "--headless"] },
  memory: { command: "npx", args: ["-y", "@modelcontextprotocol/server-memory"] },
};

export const TEMPLATE_NAMES = Object.keys(ENTRIES) as readonly TemplateName[];

/** Return the text of a configuration with this server. */
export function templateText(name: TemplateName): string {
  return JSON.stringify({ mcpServers: { [name]: ENTRIES[name] } }, null, 2);
}

/** Return true if a text is one of the templates, so that another can take its place. */
export function isTemplate(text: string): boolean {
  return TEMPLATE_NAMES.some((name) => templateText(name) === text);
}
