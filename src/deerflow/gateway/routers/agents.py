"""Custom agents: /agents; user profile: /user-profile."""

import asyncio
from dataclasses import replace
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from deerflow.config.sections.agents import CustomAgent, CustomAgentConfig, check_agent_name
from deerflow.domain.errors import ConfigError, InvalidRequest, NotFound
from deerflow.domain.identity import SharedThing
from deerflow.gateway.dependencies import ConfigurationRoute, CurrentUser, HarnessDep, refresh_shares
from deerflow.gateway.examples import with_examples


class AgentRoute(ConfigurationRoute):
    """Route of custom agents."""

    kind = "configuration.agent"


router = APIRouter(prefix="/agents", tags=["agents"], route_class=AgentRoute, dependencies=[Depends(refresh_shares)])


class ShareFields(BaseModel):
    """Fields of agents and skills that tell about another person who shares them."""

    shared_by: str | None = None
    """Address of the owner, if that is another person."""
    access: Literal["read", "write"] | None = None
    has_editors: bool = False
    """Others than the owner and the current user can change it."""

    def with_share(self, share: SharedThing | None) -> Self:
        """Return the same with the owner and the access of a shared thing."""
        if share is None:
            return self
        given = {name: getattr(share, name) for name in ("address", *ShareFields.model_fields)}
        return self.model_copy(update={name: value for name, value in given.items() if name in type(self).model_fields})


class Agent(CustomAgentConfig, ShareFields):
    """Custom agent."""

    model_config = ConfigDict(
        json_schema_extra=with_examples(
            {"name": "scribe", "description": "Writes things up.", "soul": "You are brief."}
        )
    )

    name: str
    soul: str = ""

    def to_agent(self) -> CustomAgent:
        """Return the agent of the domain."""
        return CustomAgent(
            self.name,
            CustomAgentConfig(**self.model_dump(exclude={"name", "soul", *ShareFields.model_fields})),
            self.soul,
        )


class AgentInfo(Agent):
    """Custom agent. The name of an agent that another person shares is its address, `name@owner`."""

    @classmethod
    def from_domain(cls, agent: CustomAgent) -> "AgentInfo":
        return cls(name=agent.name, soul=agent.soul, **dict(agent.config)).with_share(agent.share)


class Agents(BaseModel):
    """Custom agents."""

    agents: list[AgentInfo]


class AgentChanges(CustomAgentConfig, ShareFields):
    """Fields of an agent to update; omitted fields are kept. Those about another person are ignored."""

    model_config = ConfigDict(json_schema_extra=with_examples({"description": "Writes things up, briefly."}))

    name: str | None = None
    soul: str = ""


class NameCheck(BaseModel):
    """Availability of a name for a new agent."""

    name: str
    available: bool


@router.get("")
async def list_agents(harness: HarnessDep, user: CurrentUser) -> Agents:
    """List custom agents, by name."""
    found = await asyncio.to_thread(harness.core.custom_agents.list, user.user_id)
    return Agents(agents=[AgentInfo.from_domain(agent) for agent in found])


@router.post("", status_code=201)
async def create_agent(body: Agent, harness: HarnessDep, user: CurrentUser) -> Agent:
    """Create a custom agent."""
    await asyncio.to_thread(harness.core.custom_agents.create, user.user_id, body.to_agent())
    await harness.core.shares.end(user.user_id, "agent", body.name)  # the files of an earlier one may have been removed
    return Agent(**body.model_dump(exclude=set(ShareFields.model_fields)))


@router.get("/check")
async def check_name(
    name: Annotated[str, Query(examples=["scribe"])], harness: HarnessDep, user: CurrentUser
) -> NameCheck:
    """Check whether a name is available for a new agent."""
    try:
        await asyncio.to_thread(harness.core.custom_agents.load, user.user_id, check_agent_name(name))
    except NotFound:
        return NameCheck(name=name, available=True)
    except ConfigError:
        pass  # the agent exists, but its configuration is invalid
    return NameCheck(name=name, available=False)


@router.get("/{name}")
async def get_agent(name: str, harness: HarnessDep, user: CurrentUser) -> AgentInfo:
    """Get a custom agent."""
    return AgentInfo.from_domain(await asyncio.to_thread(harness.core.custom_agents.load, user.user_id, name))


@router.put("/{name}")
async def update_agent(name: str, body: AgentChanges, harness: HarnessDep, user: CurrentUser) -> AgentInfo:
    """Update a custom agent."""
    if body.name not in (None, name):
        raise InvalidRequest(f"agent {name!r} cannot be renamed to {body.name!r}; create a new one")
    custom_agents = harness.core.custom_agents
    agent = await asyncio.to_thread(custom_agents.load, user.user_id, name)
    given = {key: getattr(body, key) for key in body.model_fields_set - {"name", *ShareFields.model_fields}}
    changed = replace(agent, soul=given.pop("soul", agent.soul), config=agent.config.model_copy(update=given))
    await asyncio.to_thread(custom_agents.update, user.user_id, changed)
    return AgentInfo.from_domain(changed)


@router.delete("/{name}", status_code=204)
async def delete_agent(name: str, harness: HarnessDep, user: CurrentUser) -> None:
    """Delete a custom agent with its memory."""
    await harness.delete_agent(user.user_id, name)


profile_router = APIRouter(tags=["user profile"])


class UserProfile(BaseModel):
    """User profile, which is shown to all agents of the user."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"content": "I teach physics in Berlin. Metric units, please."}}
    )

    content: Annotated[str, Field(max_length=100_000)]


@profile_router.get("/user-profile", summary="Get the user profile")
async def get_profile(harness: HarnessDep, user: CurrentUser) -> UserProfile:
    """Get the user profile; empty if there is none."""
    return UserProfile(content=await harness.resources.profiles.get(user))


@profile_router.put("/user-profile", summary="Replace the user profile")
async def put_profile(body: UserProfile, harness: HarnessDep, user: CurrentUser) -> UserProfile:
    """Replace the user profile, which agents see from their next answer on; an empty text deletes it."""
    return UserProfile(content=await harness.resources.profiles.put(user, body.content))
