/** Teams, and threads that are shared with people and teams. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { Schemas } from "@/api/wire";

export type Team = Schemas["TeamInfo"];
export type TeamMember = Schemas["TeamMemberInfo"];
export type TeamRole = TeamMember["role"];
export type Grant = Schemas["GrantInfo"];
export type Access = Grant["access"];
export type SharedThreadInfo = Schemas["SharedThreadInfo"];

/** Person by address, or team by id. */
export type Grantee = { readonly email: string } | { readonly team_id: string };

export type TeamsApi = ReturnType<typeof teamsApi>;

export function teamsApi(fetch: Fetch) {
  const remove = async (path: string) => {
    await request(fetch, path, { method: "DELETE" });
  };
  return {
    list: () => requestJson<Team[]>(fetch, "/api/teams"),
    create: (name: string) => requestJson<Team>(fetch, "/api/teams", jsonBody({ name })),
    rename: (id: string, name: string) => requestJson<Team>(fetch, teamOf(id), jsonBody({ name }, "PATCH")),
    remove: (id: string) => remove(teamOf(id)),
    members: (id: string) => requestJson<TeamMember[]>(fetch, `${teamOf(id)}/members`),
    putMember: (id: string, email: string, role: TeamRole) =>
      requestJson<TeamMember>(fetch, `${teamOf(id)}/members`, jsonBody({ email, role })),
    removeMember: (id: string, userId: string) =>
      remove(`${teamOf(id)}/members/${encodeURIComponent(userId)}`),
    grants: (threadId: string) => requestJson<Grant[]>(fetch, grantsOf(threadId)),
    putGrant: (threadId: string, to: Grantee, access: Access) =>
      requestJson<Grant>(fetch, grantsOf(threadId), jsonBody({ ...to, access })),
    revoke: (threadId: string, grantId: string) =>
      remove(`${grantsOf(threadId)}/${encodeURIComponent(grantId)}`),
    sharedThreads: async () =>
      (await requestJson<Schemas["SharedWithMe"]>(fetch, "/api/shared-with-me")).threads,
  };
}

function teamOf(id: string): string {
  return `/api/teams/${encodeURIComponent(id)}`;
}

function grantsOf(threadId: string): string {
  return `/api/threads/${encodeURIComponent(threadId)}/grants`;
}
