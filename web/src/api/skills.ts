/** Skills: instructions and files agents load on demand. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { Schemas, WireThread } from "@/api/wire";

type SharedFields = "address" | "shared_by" | "access" | "has_editors";

export type Skill = Omit<Schemas["SkillSummary"], "location" | "allowed_tools" | SharedFields> &
  Partial<Pick<Schemas["SkillSummary"], SharedFields>>;

/** A folder that failed to load as a skill. */
export type RefusedSkill = Schemas["RefusedSkill"];

export type SkillList = {
  readonly skills: readonly Skill[];
  readonly refused?: Schemas["Skills"]["refused"];
};

/** A skill with its content and files. */
export type SkillWithContent = Skill &
  Pick<Schemas["SkillDetails"], "content" | "files"> &
  Partial<Pick<Schemas["SkillDetails"], "allowed_tools">>;

/** Address a skill was installed from, with the pinned revision. */
export type SkillSource = Schemas["SkillSource"];

/** An editable custom skill. */
export type CustomSkill = Pick<Schemas["CustomSkill"], "name" | "content" | "sha256" | "source">;

/** Comparison of a skill with its source. */
export type SkillUpdateCheck = Schemas["SkillUpdateCheck"];

export type SkillAction = Schemas["SkillChange"]["action"];

export type SkillChange = Omit<Schemas["SkillChange"], "before" | "after" | "scanner">;

export type Installed = Pick<Schemas["InstalledSkill"], "skill_name" | "message">;

/** Result of one test of a skill. */
export type SkillCase = Schemas["SkillCaseResult"];

export type SkillTestRun = Schemas["SkillTestResults"];

export interface SkillsApi {
  skills(): Promise<SkillList>;
  skill(name: string): Promise<SkillWithContent>;
  /** Run the tests of a skill; takes minutes. */
  testSkill(name: string): Promise<SkillTestRun>;
  switchSkill(name: string, enabled: boolean): Promise<Skill>;
  /** Install a `.skill` archive. */
  installSkill(file: File): Promise<Installed>;
  /** Install an archive from a thread's files. */
  installSkillFrom(threadId: string, path: string): Promise<Installed>;
  /** Install from a Git repository, a folder of one, or an archive. */
  installSkillFromUrl(url: string): Promise<Installed>;
  customSkill(name: string): Promise<CustomSkill>;
  createSkill(content: string): Promise<CustomSkill>;
  saveSkill(name: string, content: string, expected: string): Promise<CustomSkill>;
  deleteSkill(name: string): Promise<void>;
  /** Compare a skill with its source; nothing is changed. */
  checkSkillUpdate(name: string): Promise<SkillUpdateCheck>;
  /** Install the compared revision. Rejected if the source has changed since. */
  updateSkill(name: string, revision: string): Promise<Installed>;
  /** List changes, oldest first. */
  skillHistory(name: string): Promise<readonly SkillChange[]>;
  /** Undo a change by index; -1 is the last. */
  undoSkillChange(name: string, index: number): Promise<void>;
}

type Uploaded = Pick<Schemas["UploadAnswer"], "files">;

export function skillsApi(fetch: Fetch): SkillsApi {
  const place = (name: string) => `/api/skills/${encodeURIComponent(name)}`;
  const own = (name: string) => `/api/skills/custom/${encodeURIComponent(name)}`;
  const install = (threadId: string, path: string): Promise<Installed> =>
    requestJson(fetch, "/api/skills/install", jsonBody({ thread_id: threadId, path }));
  return {
    skills: () => requestJson(fetch, "/api/skills"),
    skill: (name) => requestJson(fetch, place(name)),
    testSkill: (name) => requestJson(fetch, `${place(name)}/test`, { method: "POST" }),
    switchSkill: (name, enabled) => requestJson(fetch, place(name), jsonBody({ enabled }, "PUT")),
    async installSkill(file) {
      // The endpoint installs from a thread, so the archive is uploaded to a temporary one.
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
    installSkillFromUrl: (url) => requestJson(fetch, "/api/skills/install", jsonBody({ url })),
    customSkill: (name) => requestJson(fetch, own(name)),
    createSkill: (content) => requestJson(fetch, "/api/skills/custom", jsonBody({ content })),
    saveSkill: (name, content, expected) =>
      requestJson(fetch, own(name), jsonBody({ content, expected_sha256: expected }, "PUT")),
    async deleteSkill(name) {
      await request(fetch, own(name), { method: "DELETE" });
    },
    checkSkillUpdate: (name) => requestJson(fetch, `${own(name)}/update`),
    updateSkill: (name, revision) => requestJson(fetch, `${own(name)}/update`, jsonBody({ revision })),
    async skillHistory(name) {
      return (await requestJson<{ history: SkillChange[] }>(fetch, `${own(name)}/history`)).history;
    },
    async undoSkillChange(name, index) {
      await request(fetch, `${own(name)}/rollback`, jsonBody({ history_index: index }));
    },
  };
}
