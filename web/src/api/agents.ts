/** Custom agents. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { Schemas } from "@/api/wire";

export type Agent = Required<
  Pick<Schemas["Agent"], "name" | "description" | "model" | "tool_groups" | "skills" | "starters" | "soul">
> &
  Partial<Pick<Schemas["AgentInfo"], "shared_by" | "access" | "has_editors">>;

/** Name that its owner has given an agent; that of another person has the owner's id after an `@`. */
export function agentTitle(name: string): string {
  return name.replace(/@.*$/, "");
}

export interface AgentsApi {
  agents(): Promise<readonly Agent[]>;
  agent(name: string): Promise<Agent>;
  isAgentNameFree(name: string): Promise<boolean>;
  createAgent(agent: Agent): Promise<Agent>;
  updateAgent(agent: Agent): Promise<Agent>;
  deleteAgent(name: string): Promise<void>;
}

export function agentsApi(fetch: Fetch): AgentsApi {
  const place = (name: string) => `/api/agents/${encodeURIComponent(name)}`;
  return {
    async agents() {
      return (await requestJson<{ agents: Agent[] }>(fetch, "/api/agents")).agents;
    },
    agent: (name) => requestJson(fetch, place(name)),
    async isAgentNameFree(name) {
      const query = new URLSearchParams({ name });
      return (await requestJson<{ available: boolean }>(fetch, `/api/agents/check?${query}`)).available;
    },
    createAgent: (agent) => requestJson(fetch, "/api/agents", jsonBody(agent)),
    updateAgent: ({ shared_by: _by, access: _access, has_editors: _editors, ...agent }) =>
      requestJson(fetch, place(agent.name), jsonBody(agent, "PUT")),
    async deleteAgent(name) {
      await request(fetch, place(name), { method: "DELETE" });
    },
  };
}
