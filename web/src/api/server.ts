/** HTTP calls for everything except threads and runs. */

import { type AccountsApi, accountsApi } from "@/api/accounts";
import { type AgentsApi, agentsApi } from "@/api/agents";
import { type FeedbackApi, feedbackApi } from "@/api/feedback";
import { type Fetch, requestJson } from "@/api/http";
import { type MemoryApi, memoryApi } from "@/api/memory";
import { type ModelsApi, modelsApi } from "@/api/models";
import { type ProjectsApi, projectsApi } from "@/api/projects";
import { type SearchApi, searchApi } from "@/api/search";
import { type SharingApi, sharingApi } from "@/api/sharing";
import { type SkillsApi, skillsApi } from "@/api/skills";
import { type FilesApi, filesApi } from "@/api/threadFiles";
import { type ToolsApi, toolsApi } from "@/api/tools";
import { type UsageApi, usageApi } from "@/api/usage";
import type { Schemas, ThreadValues } from "@/api/wire";

/** Optional features of a server. */
export type Feature =
  | "mcp"
  | "memory"
  | "search"
  | "token_usage"
  | "artifact_editing"
  | "artifact_bundles"
  | "feedback"
  | "file_previews"
  | "input_polish"
  | "suggestions"
  | "uploads"
  | "sharing"
  | "skills"
  | "skill_editing";

type Features = Schemas["Features"];

export type ServerInfo = Pick<Schemas["Features"], "version">;

export interface Server
  extends AgentsApi,
    FeedbackApi,
    FilesApi,
    MemoryApi,
    ModelsApi,
    ProjectsApi,
    SearchApi,
    SharingApi,
    SkillsApi,
    ToolsApi,
    UsageApi {
  readonly accounts: AccountsApi;
  /** For the calls of pages that are loaded later. */
  readonly fetch: Fetch;
  info(): Promise<ServerInfo>;
  /** Load all messages, including those no longer in the model's context. */
  allMessages(threadId: string): Promise<ThreadValues>;
  features(): Promise<Readonly<Record<string, boolean>>>;
}

export function createServer(fetch: Fetch): Server {
  return {
    accounts: accountsApi(fetch),
    fetch,
    ...agentsApi(fetch),
    ...feedbackApi(fetch),
    ...filesApi(fetch),
    ...memoryApi(fetch),
    ...modelsApi(fetch),
    ...projectsApi(fetch),
    ...searchApi(fetch),
    ...sharingApi(fetch),
    ...skillsApi(fetch),
    ...toolsApi(fetch),
    ...usageApi(fetch),
    info: () => requestJson(fetch, "/api/info"),
    allMessages: (threadId) => requestJson(fetch, `/api/threads/${encodeURIComponent(threadId)}/messages`),
    features: async () => (await requestJson<Features>(fetch, "/api/features")).enabled,
  };
}
