"""/agents: the ones people make"""

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from deerflow.config.agents import CustomAgent, CustomAgentConfig, check_agent_name
from deerflow.domain.errors import ConfigError, InvalidRequest, NotFound
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.examples import shown_as

router = APIRouter(prefix="/agents", tags=["agents"])


class Agent(CustomAgentConfig):
    """An agent, as the API shows it and takes it."""

    model_config = ConfigDict(
        json_schema_extra=shown_as({"name": "scribe", "description": "Writes things up.", "soul": "You are brief."})
    )

    name: str
    soul: str = ""

    @classmethod
    def of(cls, agent: CustomAgent) -> "Agent":
        return cls(name=agent.name, soul=agent.soul, **dict(agent.config))

    def to_agent(self) -> CustomAgent:
        """The agent in the words of the domain."""
        return CustomAgent(self.name, CustomAgentConfig(**self.model_dump(exclude={"name", "soul"})), self.soul)


class Agents(BaseModel):
    """The agents there are."""

    agents: list[Agent]


class AgentChanges(CustomAgentConfig):
    """What is to be different about an agent; what is left out stays as it is."""

    model_config = ConfigDict(json_schema_extra=shown_as({"description": "Writes things up, briefly."}))

    name: str | None = None
    soul: str = ""


class NameCheck(BaseModel):
    """Whether a new agent can have the name."""

    name: str
    available: bool


@router.get("")
async def list_agents(harness: TheHarness, who: Who) -> Agents:
    """The agents there are, by name."""
    found = await asyncio.to_thread(harness.custom_agents.list, who.user_id)
    return Agents(agents=[Agent.of(agent) for agent in found])


@router.post("", status_code=201)
async def create_agent(body: Agent, harness: TheHarness, who: Who) -> Agent:
    """Make an agent."""
    await asyncio.to_thread(harness.custom_agents.create, who.user_id, body.to_agent())
    return body


@router.get("/check")
async def check_name(name: Annotated[str, Query(examples=["scribe"])], harness: TheHarness, who: Who) -> NameCheck:
    """Whether a new agent can have the name."""
    try:
        await asyncio.to_thread(harness.custom_agents.load, who.user_id, check_agent_name(name))
    except NotFound:
        return NameCheck(name=name, available=True)
    except ConfigError:
        pass  # there is one, though it cannot be read
    return NameCheck(name=name, available=False)


@router.get("/{name}")
async def get_agent(name: str, harness: TheHarness, who: Who) -> Agent:
    """One agent."""
    return Agent.of(await asyncio.to_thread(harness.custom_agents.load, who.user_id, name))


@router.put("/{name}")
async def update_agent(name: str, body: AgentChanges, harness: TheHarness, who: Who) -> Agent:
    """Change an agent."""
    if body.name not in (None, name):
        raise InvalidRequest(f"the agent {name!r} cannot be called {body.name!r} from now on: make a new one")
    shelf = harness.custom_agents
    agent = await asyncio.to_thread(shelf.load, who.user_id, name)
    given = {key: getattr(body, key) for key in body.model_fields_set - {"name"}}
    changed = replace(agent, soul=given.pop("soul", agent.soul), config=agent.config.model_copy(update=given))
    await asyncio.to_thread(shelf.update, who.user_id, changed)
    return Agent.of(changed)


@router.delete("/{name}", status_code=204)
async def delete_agent(name: str, harness: TheHarness, who: Who) -> None:
    """Remove an agent, with what it knows about you."""
    await harness.delete_agent(who.user_id, name)
