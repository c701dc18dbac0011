/** Skills: what an agent can learn when it needs it. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { WireThread } from "@/api/wire";

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

/** A skill of one's own, to be changed. */
export interface CustomSkill {
  readonly name: string;
  readonly content: string;
  /** Of the SKILL.md; a change is taken only where it is still that one. */
  readonly sha256: string;
}

export type SkillAction =
  | "create"
  | "edit"
  | "patch"
  | "delete"
  | "write_file"
  | "remove_file"
  | "install"
  | "rollback";

export interface SkillChange {
  /** What undoes it; the oldest has 0. */
  readonly history_index: number;
  readonly at: string;
  readonly action: SkillAction;
  readonly author: "person" | "agent";
  readonly thread_id: string | null;
  readonly file: string | null;
  /** Unified; empty where there is nothing to compare. */
  readonly diff: string;
}

export interface Installed {
  readonly skill_name: string;
  readonly message: string;
}

export interface SkillsApi {
  skills(): Promise<AllSkills>;
  skill(name: string): Promise<WholeSkill>;
  switchSkill(name: string, enabled: boolean): Promise<Skill>;
  /** Takes in a `.skill` archive. */
  installSkill(file: File): Promise<Installed>;
  /** Takes in an archive that is among the files of a thread. */
  installSkillFrom(threadId: string, path: string): Promise<Installed>;
  customSkill(name: string): Promise<CustomSkill>;
  createSkill(content: string): Promise<CustomSkill>;
  saveSkill(name: string, content: string, expected: string): Promise<CustomSkill>;
  deleteSkill(name: string): Promise<void>;
  /** What became of a skill, oldest first. */
  skillHistory(name: string): Promise<readonly SkillChange[]>;
  /** Undoes a change by its place in the history; -1 is the last. */
  undoSkillChange(name: string, index: number): Promise<void>;
}

interface Uploaded {
  readonly files: readonly { readonly virtual_path: string }[];
}

export function skillsApi(fetch: Fetch): SkillsApi {
  const place = (name: string) => `/api/skills/${encodeURIComponent(name)}`;
  const own = (name: string) => `/api/skills/custom/${encodeURIComponent(name)}`;
  const install = (threadId: string, path: string): Promise<Installed> =>
    requestJson(fetch, "/api/skills/install", jsonBody({ thread_id: threadId, path }));
  return {
    skills: () => requestJson(fetch, "/api/skills"),
    skill: (name) => requestJson(fetch, place(name)),
    switchSkill: (name, enabled) => requestJson(fetch, place(name), jsonBody({ enabled }, "PUT")),
    async installSkill(file) {
      // Archives are taken from threads: this one has a thread of its own, for as long as it takes.
      const { thread_id: threadId } = await requestJson<WireThread>(fetch, "/api/threads", jsonBody({}));
      const thread = `/api/threads/${encodeURIComponent(threadId)}`;
      try {
        const body = new FormData();
        body.append("files", file, file.name);
        const { files } = await requestJson<Uploaded>(fetch, `${thread}/uploads`, { method: "POST", body });
        return await install(threadId, files[0]?.virtual_path ?? "");
      } finally {
        await request(fetch, thread, { method: "DELETE" }).catch(() => undefined);
      }
    },
    installSkillFrom: install,
    customSkill: (name) => requestJson(fetch, own(name)),
    createSkill: (content) => requestJson(fetch, "/api/skills/custom", jsonBody({ content })),
    saveSkill: (name, content, expected) =>
      requestJson(fetch, own(name), jsonBody({ content, expected_sha256: expected }, "PUT")),
    async deleteSkill(name) {
      await request(fetch, own(name), { method: "DELETE" });
    },
    async skillHistory(name) {
      return (await requestJson<{ history: SkillChange[] }>(fetch, `${own(name)}/history`)).history;
    },
    async undoSkillChange(name, index) {
      await request(fetch, `${own(name)}/rollback`, jsonBody({ history_index: index }));
    },
  };
}
