/** Tools, MCP servers and approval rules. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { Schemas } from "@/api/wire";

export type ToolSource = Schemas["ToolInfo"]["source"];
export type Outcome = Schemas["RuleInfo"]["outcome"];

export type Tool = Schemas["ToolInfo"];

export type Rule = Schemas["RuleInfo"];

export type Policy = Schemas["PolicyInfo"];

export type McpState = Schemas["McpServer"]["state"];

export type McpLogin = Schemas["McpLogin"];

export type McpServer = Schemas["McpServer"];

export type McpTool = Schemas["McpTool"];

/** A server entry as in the file; secrets are masked as `********`. */
export type McpEntry = Schemas["McpConfig"]["mcp_servers"][string];

export type McpConfig = Schemas["McpConfig"];

export type ToolVersion = Schemas["ToolVersion"];

export type Pin = Pick<Schemas["Pin"], "tool" | "state" | "accepted" | "offered">;

/** A server of a pasted configuration, as it would be added. */
export type PastedServer = Schemas["PastedMcpServer"];

export type ToolTrialResult = Schemas["McpToolTestResult"];

export interface ToolsApi {
  tools(): Promise<readonly Tool[]>;
  policy(): Promise<Policy>;
  mcpConfig(): Promise<McpConfig>;
  mcpServers(): Promise<readonly McpServer[]>;
  mcpServer(name: string): Promise<McpServer>;
  switchMcpServer(name: string, enabled: boolean): Promise<McpConfig>;
  /** Add or replace a server. */
  putMcpServer(name: string, entry: McpEntry): Promise<McpServer>;
  /** Show what an import would add; nothing is changed. */
  previewMcpServers(text: string): Promise<readonly PastedServer[]>;
  /** Add servers of a pasted configuration, all or none of the names; same names are replaced. */
  importMcpServers(text: string, names: readonly string[] | null): Promise<McpConfig>;
  /** Offer a tool to agents or not. */
  switchMcpTool(name: string, tool: string, enabled: boolean): Promise<McpServer>;
  /** Call a tool once, under the approval rules. */
  tryMcpTool(
    name: string,
    tool: string,
    args: Readonly<Record<string, unknown>>,
    approved: boolean,
  ): Promise<ToolTrialResult>;
  removeMcpServer(name: string): Promise<void>;
  reconnectMcpServer(name: string): Promise<McpServer>;
  mcpPins(name: string): Promise<readonly Pin[]>;
  /** Rejected if a tool has changed since its hash was read. */
  acceptMcpTools(name: string, hashes: Readonly<Record<string, string>>): Promise<readonly Pin[]>;
  /** Return the authorization URL. */
  startMcpLogin(name: string, returnTo: string): Promise<string>;
  deleteMcpLogin(name: string): Promise<void>;
}

export function toolsApi(fetch: Fetch): ToolsApi {
  const at = (name: string) => `/api/mcp/servers/${encodeURIComponent(name)}`;
  return {
    tools: async () => (await requestJson<{ tools: Tool[] }>(fetch, "/api/tools")).tools,
    policy: () => requestJson(fetch, "/api/policy"),
    mcpConfig: () => requestJson(fetch, "/api/mcp/config"),
    mcpServers: async () => (await requestJson<{ servers: McpServer[] }>(fetch, "/api/mcp/servers")).servers,
    mcpServer: (name) => requestJson(fetch, at(name)),
    switchMcpServer: (name, enabled) =>
      requestJson(fetch, "/api/mcp/config", jsonBody({ server_name: name, enabled }, "PATCH")),
    putMcpServer: (name, entry) => requestJson(fetch, at(name), jsonBody(entry, "PUT")),
    async previewMcpServers(text) {
      const body = jsonBody({ text });
      return (await requestJson<Schemas["McpImportPreview"]>(fetch, "/api/mcp/import/preview", body)).servers;
    },
    importMcpServers: (text, names) => requestJson(fetch, "/api/mcp/import", jsonBody({ text, names })),
    switchMcpTool: (name, tool, enabled) =>
      requestJson(fetch, `${at(name)}/tools`, jsonBody({ tool, enabled }, "PATCH")),
    tryMcpTool: (name, tool, args, approved) =>
      requestJson(fetch, `${at(name)}/tools/call`, jsonBody({ tool, arguments: args, approved })),
    async removeMcpServer(name) {
      await request(fetch, at(name), { method: "DELETE" });
    },
    reconnectMcpServer: (name) => requestJson(fetch, `${at(name)}/reconnect`, { method: "POST" }),
    mcpPins: async (name) => (await requestJson<{ tools: Pin[] }>(fetch, `${at(name)}/pins`)).tools,
    async acceptMcpTools(name, tools) {
      return (await requestJson<{ tools: Pin[] }>(fetch, `${at(name)}/pins/accept`, jsonBody({ tools })))
        .tools;
    },
    async startMcpLogin(name, returnTo) {
      const body = jsonBody({ return_to: returnTo });
      return (await requestJson<{ authorization_url: string }>(fetch, `${at(name)}/oauth/start`, body))
        .authorization_url;
    },
    async deleteMcpLogin(name) {
      await request(fetch, `${at(name)}/oauth`, { method: "DELETE" });
    },
  };
}
