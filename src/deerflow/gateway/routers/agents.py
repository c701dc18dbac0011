"""Custom agents: /agents; user profile: /user-profile."""

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from deerflow.config.sections.agents import CustomAgent, CustomAgentConfig, check_agent_name
from deerflow.domain.errors import ConfigError, InvalidRequest, NotFound
from deerflow.gateway.dependencies import ConfigurationRoute, CurrentUser, HarnessDep
from deerflow.gateway.examples import with_examples


class AgentRoute(ConfigurationRoute):
    """Route of custom agents."""

    kind = "configuration.agent"


router = APIRouter(prefix="/agents", tags=["agents"], route_class=AgentRoute)


class Agent(CustomAgentConfig):
    """Custom agent."""

    model_config = ConfigDict(
        json_schema_extra=with_examples(
            {"name": "scribe", "description": "Writes things up.", "soul": "You are brief."}
        )
    )

    name: str
    soul: str = ""

    @classmethod
    def from_domain(cls, agent: CustomAgent) -> "Agent":
        return cls(name=agent.name, soul=agent.soul, **dict(agent.config))

    def to_agent(self) -> CustomAgent:
        """Return the agent of the domain."""
        return CustomAgent(self.name, CustomAgentConfig(**self.model_dump(exclude={"name", "soul"})), self.soul)


class Agents(BaseModel):
    """Custom agents."""

    agents: list[Agent]


class AgentChanges(CustomAgentConfig):
    """Fields of an agent to update; omitted fields are kept."""

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
    return Agents(agents=[Agent.from_domain(agent) for agent in found])


@router.post("", status_code=201)
async def create_agent(body: Agent, harness: HarnessDep, user: CurrentUser) -> Agent:
    """Create a custom agent."""
    await asyncio.to_thread(harness.core.custom_agents.create, user.user_id, body.to_agent())
    return body


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
async def get_agent(name: str, harness: HarnessDep, user: CurrentUser) -> Agent:
    """Get a custom agent."""
    return Agent.from_domain(await asyncio.to_thread(harness.core.custom_agents.load, user.user_id, name))


@router.put("/{name}")
async def update_agent(name: str, body: AgentChanges, harness: HarnessDep, user: CurrentUser) -> Agent:
    """Update a custom agent."""
    if body.name not in (None, name):
        raise InvalidRequest(f"agent {name!r} cannot be renamed to {body.name!r}; create a new one")
    custom_agents = harness.core.custom_agents
    agent = await asyncio.to_thread(custom_agents.load, user.user_id, name)
    given = {key: getattr(body, key) for key in body.model_fields_set - {"name"}}
    changed = replace(agent, soul=given.pop("soul", agent.soul), config=agent.config.model_copy(update=given))
    await asyncio.to_thread(custom_agents.update, user.user_id, changed)
    return Agent.from_domain(changed)


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
