/** A server that is a script. */

import type { Server } from "@/api/server";

/** Answers of an empty server; `answers` says what is different. */
export function fakeServer(answers: Partial<Server> = {}): Server {
  const nobody = async () => Promise.reject(new Error("nobody has written this answer"));
  return {
    info: async () => ({ version: "0.1.0" }),
    everythingSaid: async () => ({ messages: [] }),
    offers: async () => ({}),
    agents: async () => [],
    agent: nobody,
    isAgentNameFree: async () => true,
    createAgent: async (agent) => agent,
    updateAgent: async (agent) => agent,
    deleteAgent: async () => {},
    folder: async (_, path) => ({ path, entries: [], is_truncated: false }),
    bytes: nobody,
    saveText: nobody,
    search: nobody,
    shares: async () => [],
    share: nobody,
    unshare: async () => {},
    skills: async () => ({ skills: [] }),
    skill: nobody,
    switchSkill: nobody,
    installSkill: nobody,
    installSkillFrom: nobody,
    customSkill: nobody,
    createSkill: nobody,
    saveSkill: nobody,
    deleteSkill: nobody,
    skillHistory: async () => [],
    undoSkillChange: nobody,
    runs: async () => [],
    runEvents: async () => [],
    threadUsage: nobody,
    runUsage: nobody,
    ...answers,
  };
}
