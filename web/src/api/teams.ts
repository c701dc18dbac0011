/** Teams, and what is shared with people and teams: threads, agents and skills. */

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

/** Thread by its id, or an own agent or skill by its name. */
export interface Shareable {
  readonly kind: "thread" | "agent" | "skill";
  readonly id: string;
}

export type SharedWithMe = Schemas["SharedWithMe"];

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
    grants: (of: Shareable) => requestJson<Grant[]>(fetch, grantsOf(of)),
    putGrant: (of: Shareable, to: Grantee, access: Access) =>
      requestJson<Grant>(fetch, grantsOf(of), jsonBody({ ...to, access })),
    revoke: (of: Shareable, grantId: string) => remove(`${grantsOf(of)}/${encodeURIComponent(grantId)}`),
    sharedWithMe: () => requestJson<SharedWithMe>(fetch, "/api/shared-with-me"),
  };
}

function teamOf(id: string): string {
  return `/api/teams/${encodeURIComponent(id)}`;
}

const PLACES = { thread: "threads", agent: "agents", skill: "skills/custom" } as const;

function grantsOf({ kind, id }: Shareable): string {
  return `/api/${PLACES[kind]}/${encodeURIComponent(id)}/grants`;
}
