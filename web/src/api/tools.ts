/** Tools, MCP servers and approval rules. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";

export type ToolSource = "builtin" | "configured" | "web" | "mcp";
export type Outcome = "allow" | "ask" | "deny";

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly source: ToolSource;
  readonly server: string | null;
  /** Returns untrusted content. */
  readonly brings_untrusted: boolean;
  /** Can send data out. */
  readonly reaches_out: boolean;
  /** Every call requires approval. */
  readonly needs_approval: boolean;
}

export interface Rule {
  readonly name: string;
  readonly outcome: Outcome;
  readonly reason: string;
  /** Built-in rule. */
  readonly is_shipped: boolean;
  /** Conditions as written in the file. */
  readonly conditions: Readonly<Record<string, unknown>>;
}

export interface Policy {
  readonly enabled: boolean;
  readonly rules: readonly Rule[];
  readonly otherwise: Outcome;
}

export type McpState = "idle" | "connecting" | "ready" | "failed" | "disabled" | "changed" | "needs_login";

export interface McpLogin {
  /** `none`: no login; `server`: configured credentials; `personal`: each user signs in. */
  readonly kind: "none" | "server" | "personal";
  readonly state: "not_needed" | "logged_in" | "needs_login" | "expired_key";
  readonly expires_at: string | null;
  readonly scope: string | null;
  readonly issuer: string | null;
  readonly since: string | null;
}

export interface McpServer {
  readonly name: string;
  readonly type: "stdio" | "sse" | "http";
  readonly description: string;
  readonly enabled: boolean;
  readonly state: McpState;
  readonly error: string | null;
  /** Unsupported settings of its entry. */
  readonly notes: readonly string[];
  readonly since: string | null;
  readonly tools: readonly McpTool[];
  /** Changed tools that need to be accepted. */
  readonly changed_tools: readonly string[];
  readonly resources: readonly {
    readonly uri: string;
    readonly name: string;
    readonly description: string;
  }[];
  readonly prompts: readonly {
    readonly name: string;
    readonly description: string;
    readonly arguments: readonly string[];
  }[];
  readonly login: McpLogin;
}

export interface McpTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input_schema: unknown;
  readonly read_only: boolean | null;
}

/** A server entry as in the file; secrets are masked as `********`. */
export type McpEntry = Readonly<Record<string, unknown>>;

export interface McpConfig {
  readonly mcp_servers: Readonly<Record<string, McpEntry>>;
  /** Parse error of the file; the last valid version is in use. */
  readonly problem: string | null;
}

export interface ToolVersion {
  readonly hash: string;
  readonly title: string;
  readonly description: string;
  readonly input_schema: string;
  readonly output_schema: string | null;
  readonly annotations: string;
}

export interface Pin {
  readonly tool: string;
  readonly state: "accepted" | "changed" | "added";
  readonly accepted: ToolVersion | null;
  /** Set if it differs from the accepted version. */
  readonly offered: ToolVersion | null;
}

export interface ToolsApi {
  tools(): Promise<readonly Tool[]>;
  policy(): Promise<Policy>;
  mcpConfig(): Promise<McpConfig>;
  mcpServers(): Promise<readonly McpServer[]>;
  mcpServer(name: string): Promise<McpServer>;
  switchMcpServer(name: string, enabled: boolean): Promise<McpConfig>;
  /** Add or replace a server. */
  putMcpServer(name: string, entry: McpEntry): Promise<McpServer>;
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
