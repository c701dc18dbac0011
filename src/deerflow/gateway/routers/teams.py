"""Teams and grants: /teams, /shared-with-me, and /grants of threads, agents and skills."""

import asyncio
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, model_validator

from deerflow.accounts.model import MAX_EMAIL_CHARS
from deerflow.domain.errors import Conflict, NotFound
from deerflow.gateway.dependencies import CurrentUser, HarnessDep, OwnSkill, ThreadOwner
from deerflow.gateway.examples import with_examples
from deerflow.gateway.routers.threads.threads import Thread
from deerflow.harness import Harness
from deerflow.teams.model import MAX_NAME_CHARS, NO_ACCOUNTS, Access, Grantee, SharedResource, TeamRole

router = APIRouter(tags=["teams"])

EMAIL = "bob@example.com"
Email = Annotated[str, Field(min_length=1, max_length=MAX_EMAIL_CHARS)]


class TeamName(BaseModel):
    """Name of a team."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"name": "Research"}))

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]


class TeamInfo(BaseModel):
    """Team; `role` is yours, and null if you see it as an administrator only."""

    model_config = ConfigDict(from_attributes=True)

    team_id: str
    name: str
    created_at: datetime
    role: TeamRole | None
    members: int


class PutMember(BaseModel):
    """Person to add to a team, and their role. A member gets the new role."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"email": EMAIL, "role": "member"}))

    email: Email
    role: TeamRole = "member"


class TeamMemberInfo(BaseModel):
    """Member of a team."""

    model_config = ConfigDict(from_attributes=True)

    user_id: str
    email: str
    role: TeamRole
    added_at: datetime


class PutGrant(BaseModel):
    """Person or team to share with, and what they may do. A second grant to the same replaces the first."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"email": EMAIL, "access": "read"}))

    email: Email | None = None
    team_id: Annotated[str, Field(max_length=64)] | None = None
    access: Access = "read"

    @model_validator(mode="after")
    def check_one(self) -> "PutGrant":
        """Check that one of the two is named."""
        if (self.email is None) == (self.team_id is None):
            raise ValueError("name either a person by email or a team by team_id")
        return self


class GrantInfo(BaseModel):
    """Grant; `name` is the address of the person or the name of the team."""

    model_config = ConfigDict(from_attributes=True)

    grant_id: str
    user_id: str | None
    team_id: str | None
    name: str
    access: Access
    created_at: datetime


class SharedThreadInfo(BaseModel):
    """Thread that another person shares with you."""

    thread: Thread
    access: Access
    shared_by: str


class SharedThingInfo(BaseModel):
    """Agent or skill that another person shares with you."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    address: str
    """Unique name, `name@owner`; agents are used by it."""
    access: Access
    shared_by: str
    has_editors: bool
    """Others than its owner and you can change it."""


class SharedSkillInfo(SharedThingInfo):
    """Skill that another person shares with you."""

    is_accepted: bool
    """You have switched it on."""


class SharedWithMe(BaseModel):
    """Everything that is shared with you: threads by latest activity, agents and skills by name."""

    threads: list[SharedThreadInfo]
    agents: list[SharedThingInfo]
    skills: list[SharedSkillInfo]


@router.get("/teams", summary="List your teams")
async def list_teams(harness: HarnessDep, user: CurrentUser, every: bool = False) -> list[TeamInfo]:
    """List your teams by name; administrators get all teams with `every`."""
    return [TeamInfo.model_validate(each) for each in await harness.resources.teams.list(user, every=every)]


@router.post("/teams", status_code=201, summary="Create a team")
async def create_team(body: TeamName, harness: HarnessDep, user: CurrentUser) -> TeamInfo:
    """Create a team whose owner you are. 409 while there are no accounts."""
    return TeamInfo.model_validate(await harness.resources.teams.create(body.name, user))


@router.get("/teams/{team_id}", summary="Get a team")
async def get_team(team_id: str, harness: HarnessDep, user: CurrentUser) -> TeamInfo:
    """Get a team that you are a member of."""
    return TeamInfo.model_validate(await harness.resources.teams.get(team_id, user))


@router.patch("/teams/{team_id}", summary="Rename a team")
async def rename_team(team_id: str, body: TeamName, harness: HarnessDep, user: CurrentUser) -> TeamInfo:
    """Rename a team; for its owners and administrators."""
    return TeamInfo.model_validate(await harness.resources.teams.rename(team_id, body.name, user))


@router.delete("/teams/{team_id}", status_code=204, summary="Delete a team")
async def delete_team(team_id: str, harness: HarnessDep, user: CurrentUser) -> None:
    """Delete a team; what was shared with it is no longer shared. For its owners and administrators."""
    await harness.resources.teams.delete(team_id, user)


@router.get("/teams/{team_id}/members", summary="List the members of a team")
async def list_members(team_id: str, harness: HarnessDep, user: CurrentUser) -> list[TeamMemberInfo]:
    """List the members of a team by address."""
    return [TeamMemberInfo.model_validate(each) for each in await harness.resources.teams.list_members(team_id, user)]


@router.post("/teams/{team_id}/members", summary="Add a member to a team")
async def put_member(team_id: str, body: PutMember, harness: HarnessDep, user: CurrentUser) -> TeamMemberInfo:
    """Add a person by the address of their account, or change their role; for owners and administrators."""
    await harness.resources.teams.get(team_id, user)
    member = await find_person(harness, body.email)
    return TeamMemberInfo.model_validate(await harness.resources.teams.put_member(team_id, member, body.role, user))


@router.delete("/teams/{team_id}/members/{user_id}", status_code=204, summary="Remove a member from a team")
async def remove_member(team_id: str, user_id: str, harness: HarnessDep, user: CurrentUser) -> None:
    """Remove a member, whose things are then no longer shared with the team. Every member may leave."""
    await harness.resources.teams.remove_member(team_id, user_id, user)


@router.get("/shared-with-me", summary="List what is shared with you")
async def list_shared_with_me(harness: HarnessDep, user: CurrentUser) -> SharedWithMe:
    """List the threads, agents and skills that others share with you or your teams."""
    found = await harness.resources.grants.list_shared_threads(user)
    threads = [
        SharedThreadInfo(thread=Thread.from_domain(each.thread), access=each.access, shared_by=each.shared_by)
        for each in found
    ]
    things = await harness.core.shares.refresh(user.user_id)
    agents = [SharedThingInfo.model_validate(each) for each in things if each.kind == "agent"]
    skills = [SharedSkillInfo.model_validate(each) for each in things if each.kind == "skill"]
    return SharedWithMe(threads=threads, agents=agents, skills=skills)


@router.get("/threads/{thread_id}/grants", summary="List who a thread is shared with")
async def list_thread_grants(thread_id: str, harness: HarnessDep, user: ThreadOwner) -> list[GrantInfo]:
    """List the people and teams that a thread is shared with."""
    return await list_grants(harness, SharedResource(user.user_id, "thread", thread_id))


@router.post("/threads/{thread_id}/grants", summary="Share a thread with a person or team")
async def share_thread_with(thread_id: str, body: PutGrant, harness: HarnessDep, user: ThreadOwner) -> GrantInfo:
    """Share a thread for reading, or for reading and writing, or change the access."""
    await harness.threads.get(thread_id, user)
    return await put_grant(harness, SharedResource(user.user_id, "thread", thread_id), body)


@router.delete("/threads/{thread_id}/grants/{grant_id}", status_code=204, summary="Stop sharing a thread")
async def revoke_thread_grant(thread_id: str, grant_id: str, harness: HarnessDep, user: ThreadOwner) -> None:
    """Stop sharing a thread with a person or team; their open streams end."""
    await harness.resources.grants.revoke(SharedResource(user.user_id, "thread", thread_id), grant_id)


async def find_own_agent(name: str, harness: HarnessDep, user: CurrentUser) -> SharedResource:
    """Return the agent in the path. Only its owner may share it."""
    owner, own = await harness.core.shares.resolve(user.user_id, "agent", name, "own")
    await asyncio.to_thread(harness.core.custom_agents.check_own, owner, own)
    return SharedResource(owner, "agent", own)


async def find_own_skill(skill: OwnSkill, harness: HarnessDep) -> SharedResource:
    """Return the skill in the path. Only its owner may share it."""
    await harness.resources.custom_skills.get(*skill)
    return SharedResource(skill.owner, "skill", skill.name)


OwnAgentResource = Annotated[SharedResource, Depends(find_own_agent)]
OwnSkillResource = Annotated[SharedResource, Depends(find_own_skill)]


@router.get("/agents/{name}/grants", summary="List who an agent is shared with")
async def list_agent_grants(agent: OwnAgentResource, harness: HarnessDep) -> list[GrantInfo]:
    """List the people and teams that an agent is shared with."""
    return await list_grants(harness, agent)


@router.post("/agents/{name}/grants", summary="Share an agent with a person or team")
async def share_agent_with(agent: OwnAgentResource, body: PutGrant, harness: HarnessDep) -> GrantInfo:
    """Share an agent for use, or also for changes, or change the access."""
    return await put_grant(harness, agent, body)


@router.delete("/agents/{name}/grants/{grant_id}", status_code=204, summary="Stop sharing an agent")
async def revoke_agent_grant(agent: OwnAgentResource, grant_id: str, harness: HarnessDep) -> None:
    """Stop sharing an agent with a person or team; their next run with it is refused."""
    await harness.resources.grants.revoke(agent, grant_id)


@router.get("/skills/custom/{name}/grants", summary="List who a skill is shared with")
async def list_skill_grants(skill: OwnSkillResource, harness: HarnessDep) -> list[GrantInfo]:
    """List the people and teams that a skill is shared with."""
    return await list_grants(harness, skill)


@router.post("/skills/custom/{name}/grants", summary="Share a skill with a person or team")
async def share_skill_with(skill: OwnSkillResource, body: PutGrant, harness: HarnessDep) -> GrantInfo:
    """Share a skill for use, or also for changes, or change the access. Others have it after they switch it on."""
    return await put_grant(harness, skill, body)


@router.delete("/skills/custom/{name}/grants/{grant_id}", status_code=204, summary="Stop sharing a skill")
async def revoke_skill_grant(skill: OwnSkillResource, grant_id: str, harness: HarnessDep) -> None:
    """Stop sharing a skill with a person or team; their next run does not have it."""
    await harness.resources.grants.revoke(skill, grant_id)


async def list_grants(harness: Harness, resource: SharedResource) -> list[GrantInfo]:
    """Return the grants of a thing."""
    return [GrantInfo.model_validate(each) for each in await harness.resources.grants.list(resource)]


async def put_grant(harness: Harness, resource: SharedResource, body: PutGrant) -> GrantInfo:
    """Share a thing with the person or team of a request."""
    to = Grantee(team_id=body.team_id) if body.email is None else Grantee(await find_person(harness, body.email))
    return GrantInfo.model_validate(await harness.resources.grants.share(resource, to, body.access))


async def find_person(harness: Harness, email: str) -> str:
    """Return the user id of an active account, or raise `NotFound`. People of one server may know each other."""
    if not await harness.resources.accounts.exist():
        raise Conflict(NO_ACCOUNTS)
    account = await harness.resources.accounts.find_by_email(email)
    if not account.is_active:
        raise NotFound(f"no account {email!r}")
    return account.user_id
