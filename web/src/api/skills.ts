/** Skills: what an agent can learn when it needs it. */

import { type Fetch, jsonBody, requestJson } from "@/api/http";

export interface Skill {
  readonly name: string;
  readonly description: string;
  readonly license: string | null;
  readonly category: string;
  readonly enabled: boolean;
  readonly editable: boolean;
}

/** A folder that was to be a skill and is none. */
export interface RefusedSkill {
  readonly category: string;
  readonly path: string;
  readonly reason: string;
}

export interface AllSkills {
  readonly skills: readonly Skill[];
  readonly refused?: readonly RefusedSkill[];
}

/** A skill with what is in it. */
export interface WholeSkill extends Skill {
  /** The whole SKILL.md. */
  readonly content: string;
  readonly files: readonly { readonly path: string; readonly size: number }[];
  readonly allowed_tools?: readonly string[] | null;
}

export interface SkillsApi {
  skills(): Promise<AllSkills>;
  skill(name: string): Promise<WholeSkill>;
  switchSkill(name: string, enabled: boolean): Promise<Skill>;
}

export function skillsApi(fetch: Fetch): SkillsApi {
  const place = (name: string) => `/api/skills/${encodeURIComponent(name)}`;
  return {
    skills: () => requestJson(fetch, "/api/skills"),
    skill: (name) => requestJson(fetch, place(name)),
    switchSkill: (name, enabled) => requestJson(fetch, place(name), jsonBody({ enabled }, "PUT")),
  };
}
