/** Skills: what an agent can learn when it needs it. */

import { type Fetch, requestJson } from "@/api/http";

export interface Skill {
  readonly name: string;
  readonly description: string;
  readonly license: string | null;
  readonly category: string;
  readonly enabled: boolean;
  readonly editable: boolean;
}

export interface SkillsApi {
  skills(): Promise<readonly Skill[]>;
}

export function skillsApi(fetch: Fetch): SkillsApi {
  return {
    async skills() {
      return (await requestJson<{ skills: Skill[] }>(fetch, "/api/skills")).skills;
    },
  };
}
