/** Projects, their files and the passages of these. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { MemoryDocument } from "@/api/memory";
import type { Schemas, WireThread } from "@/api/wire";

export type Project = Schemas["Project"];
export type ProjectFile = Schemas["IndexedFile"];
export type ProjectFiles = Schemas["ProjectFiles"];
export type FilePassages = Schemas["FilePassages"];
type FilesAdded = Schemas["FilesAdded"];

export interface ProjectsApi {
  projects(): Promise<readonly Project[]>;
  project(id: string): Promise<Project>;
  createProject(name: string): Promise<Project>;
  changeProject(id: string, change: Partial<Pick<Project, "name" | "instructions">>): Promise<Project>;
  deleteProject(id: string): Promise<void>;
  projectThreads(id: string): Promise<readonly WireThread[]>;
  /** Move a thread into a project, or out of the one it is in. */
  moveThread(threadId: string, from: string | null, to: string | null): Promise<void>;
  projectFiles(id: string, limit: number): Promise<ProjectFiles>;
  addProjectFiles(id: string, files: readonly File[]): Promise<FilesAdded>;
  deleteProjectFile(id: string, fileId: string): Promise<void>;
  retryProjectFile(id: string, fileId: string): Promise<ProjectFile>;
  filePassages(id: string, fileId: string, first: number): Promise<FilePassages>;
  projectMemory(id: string): Promise<MemoryDocument>;
  addProjectFact(id: string, content: string): Promise<MemoryDocument>;
  removeProjectFact(id: string, factId: string): Promise<MemoryDocument>;
}

const MAX_THREADS = 500;

export function projectsApi(fetch: Fetch): ProjectsApi {
  const at = (id: string, path = "") => `/api/projects/${encodeURIComponent(id)}${path}`;
  const file = (id: string, fileId: string, path = "") =>
    at(id, `/files/${encodeURIComponent(fileId)}${path}`);
  const memory = (id: string, path = "", more = "") =>
    `/api/memory${path}?project=${encodeURIComponent(id)}${more}`;
  return {
    projects: async () => (await requestJson<Schemas["ProjectList"]>(fetch, "/api/projects")).projects,
    project: (id) => requestJson(fetch, at(id)),
    createProject: (name) => requestJson(fetch, "/api/projects", jsonBody({ name })),
    changeProject: (id, change) => requestJson(fetch, at(id), jsonBody(change, "PATCH")),
    async deleteProject(id) {
      // `keepalive` lets the request finish when the page is closed.
      await request(fetch, at(id), { method: "DELETE", keepalive: true });
    },
    projectThreads: (id) =>
      requestJson(
        fetch,
        "/api/threads/search",
        jsonBody({ project_id: id, has_messages: true, limit: MAX_THREADS }),
      ),
    async moveThread(threadId, from, to) {
      const [project, method] = to === null ? [from, "DELETE"] : [to, "PUT"];
      if (project === null) return;
      await request(fetch, at(project, `/threads/${encodeURIComponent(threadId)}`), { method });
    },
    projectFiles: (id, limit) => requestJson(fetch, at(id, `/files?limit=${limit}`)),
    addProjectFiles(id, files) {
      const form = new FormData();
      for (const each of files) form.append("files", each, each.name);
      return requestJson(fetch, at(id, "/files"), { method: "POST", body: form });
    },
    async deleteProjectFile(id, fileId) {
      await request(fetch, file(id, fileId), { method: "DELETE" });
    },
    retryProjectFile: (id, fileId) => requestJson(fetch, file(id, fileId, "/retry"), { method: "POST" }),
    filePassages: (id, fileId, first) => requestJson(fetch, file(id, fileId, `/passages?first=${first}`)),
    projectMemory: (id) => requestJson(fetch, memory(id)),
    addProjectFact: (id, content) => requestJson(fetch, memory(id, "/facts"), jsonBody({ content })),
    removeProjectFact: (id, factId) =>
      requestJson(fetch, memory(id, `/facts/${encodeURIComponent(factId)}`, "&keep_history=true"), {
        method: "DELETE",
      }),
  };
}

/** URL of a file's content. */
export function projectFileUrl(id: string, fileId: string): string {
  return `/api/projects/${encodeURIComponent(id)}/files/${encodeURIComponent(fileId)}/content`;
}
