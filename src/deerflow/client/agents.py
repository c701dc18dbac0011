"""Custom agents: found, made and changed by a program."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

from deerflow.client.faces import Session
from deerflow.config.agents import CustomAgent, CustomAgentConfig
from deerflow.config.reading.document import from_argument
from deerflow.config.reading.validation import validate
from deerflow.domain.errors import ConfigError, InvalidRequest
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import ReasoningEffort

USER = LOCAL_USER.user_id


class AgentFields(TypedDict, total=False):
    """What can be said of an agent. A new one has the usual for what is left out, a changed one keeps what it had."""

    description: str
    model: str | None
    tool_groups: Sequence[str] | None
    skills: Sequence[str] | None
    model_settings: Mapping[str, float | None]
    thinking_enabled: bool | None
    reasoning_effort: ReasoningEffort | None
    soul: str


class Described(CustomAgentConfig):
    """An agent's settings and its soul as one, which is how they are given."""

    soul: str = ""


async def list_agents(session: Session) -> list[dict[str, Any]]:
    """The custom agents there are, by name."""
    found = await asyncio.to_thread(session.harness.custom_agents.list, USER)
    return [show_agent(agent) for agent in found]


async def get_agent(session: Session, name: str) -> dict[str, Any]:
    """One custom agent.

    Raises:
        NotFound: there is no such agent.
    """
    return show_agent(await asyncio.to_thread(session.harness.custom_agents.load, USER, name))


async def create_agent(session: Session, name: str, **fields: Unpack[AgentFields]) -> dict[str, Any]:
    """Make a custom agent.

    Args:
        name: Letters, digits and '-'.
        **fields: `soul`, who it is, and any of `description`, `model`, `tool_groups`, `skills`, `model_settings`,
            `thinking_enabled` and `reasoning_effort`.

    Raises:
        Conflict: there is one of that name.
        InvalidRequest: a field makes no sense.
    """
    agent = described(CustomAgent(name), fields)
    await asyncio.to_thread(session.harness.custom_agents.create, USER, agent)
    return show_agent(agent)


async def update_agent(session: Session, name: str, **fields: Unpack[AgentFields]) -> dict[str, Any]:
    """Change a custom agent; what is left out stays as it is.

    Raises:
        NotFound: there is no such agent.
        Conflict: it is one for everybody.
        InvalidRequest: a field makes no sense.
    """
    shelf = session.harness.custom_agents
    agent = described(await asyncio.to_thread(shelf.load, USER, name), fields)
    await asyncio.to_thread(shelf.update, USER, agent)
    return show_agent(agent)


async def delete_agent(session: Session, name: str) -> None:
    """Remove a custom agent, with what it knows about you.

    Raises:
        NotFound: there is no such agent.
        Conflict: it is one for everybody.
    """
    await session.harness.delete_agent(USER, name)


def described(agent: CustomAgent, fields: AgentFields) -> CustomAgent:
    """`agent` as `fields` have it."""
    whole = {**agent.config.model_dump(), "soul": agent.soul, **fields}
    try:
        given = dict(validate(Described, from_argument(whole, f"agent {agent.name!r}")))
    except ConfigError as problem:
        raise InvalidRequest(str(problem)) from None
    return replace(agent, soul=given.pop("soul"), config=CustomAgentConfig(**given))


def show_agent(agent: CustomAgent) -> dict[str, Any]:
    """An agent in the shape of the HTTP API."""
    return {"name": agent.name, **agent.config.model_dump(mode="json"), "soul": agent.soul}
