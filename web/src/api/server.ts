/** What the server can be asked for beside threads and their runs. */

import { type AgentsApi, agentsApi } from "@/api/agents";
import { type Fetch, requestJson } from "@/api/http";
import { type MemoryApi, memoryApi } from "@/api/memory";
import { type SearchApi, searchApi } from "@/api/search";
import { type SharingApi, sharingApi } from "@/api/sharing";
import { type SkillsApi, skillsApi } from "@/api/skills";
import { type FilesApi, filesApi } from "@/api/threadFiles";
import { type ToolsApi, toolsApi } from "@/api/tools";
import { type UsageApi, usageApi } from "@/api/usage";
import type { ThreadValues } from "@/api/wire";

/** What a server may offer or not. */
export type Offer =
  | "mcp"
  | "memory"
  | "search"
  | "token_usage"
  | "artifact_editing"
  | "artifact_bundles"
  | "sharing"
  | "skills"
  | "skill_editing";

interface Features {
  readonly enabled: Readonly<Record<string, boolean>>;
}

export interface ServerInfo {
  readonly version: string;
}

export interface Server
  extends AgentsApi,
    FilesApi,
    MemoryApi,
    SearchApi,
    SharingApi,
    SkillsApi,
    ToolsApi,
    UsageApi {
  info(): Promise<ServerInfo>;
  /** The whole thread, also what the agent no longer has in view. */
  everythingSaid(threadId: string): Promise<ThreadValues>;
  offers(): Promise<Readonly<Record<string, boolean>>>;
}

export function createServer(fetch: Fetch): Server {
  return {
    ...agentsApi(fetch),
    ...filesApi(fetch),
    ...memoryApi(fetch),
    ...searchApi(fetch),
    ...sharingApi(fetch),
    ...skillsApi(fetch),
    ...toolsApi(fetch),
    ...usageApi(fetch),
    info: () => requestJson(fetch, "/api/info"),
    everythingSaid: (threadId) => requestJson(fetch, `/api/threads/${encodeURIComponent(threadId)}/messages`),
    offers: async () => (await requestJson<Features>(fetch, "/api/features")).enabled,
  };
}
