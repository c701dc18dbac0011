"""Custom agents, and the models, tools, features and user profile they work with."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypedDict, Unpack

from pydantic_core import to_jsonable_python

from deerflow.client.session import HarnessSession, Resource, sync_and_async
from deerflow.config.loader.document import from_mapping
from deerflow.config.loader.validation import validate
from deerflow.config.sections.agents import CustomAgent, CustomAgentConfig
from deerflow.domain.errors import ConfigError, InvalidRequest
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import ReasoningEffort

USER = LOCAL_USER.user_id


class AgentFields(TypedDict, total=False):
    """Settings of a custom agent. Omitted ones have their default in a new agent and are kept in an updated one."""

    description: str
    model: str | None
    tool_groups: Sequence[str] | None
    skills: Sequence[str] | None
    model_settings: Mapping[str, float | None]
    thinking_enabled: bool | None
    reasoning_effort: ReasoningEffort | None
    starters: Sequence[str]
    soul: str


class AgentDefinition(CustomAgentConfig):
    """Settings and soul of an agent in one object, as callers pass them."""

    soul: str = ""


async def list_agents(session: HarnessSession) -> list[dict[str, Any]]:
    """Return the custom agents, by name."""
    found = await asyncio.to_thread(session.harness.core.custom_agents.list, USER)
    return [serialize_agent(agent) for agent in found]


async def get_agent(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return a custom agent.

    Raises:
        NotFound: the agent does not exist.
    """
    return serialize_agent(await asyncio.to_thread(session.harness.core.custom_agents.load, USER, name))


async def create_agent(session: HarnessSession, name: str, **fields: Unpack[AgentFields]) -> dict[str, Any]:
    """Create a custom agent and return it.

    Args:
        name: Letters, digits and '-'.
        **fields: `soul`, the personality and role of the agent, and any of `description`, `model`, `tool_groups`,
            `skills`, `model_settings`, `thinking_enabled`, `reasoning_effort` and `starters`.

    Raises:
        Conflict: an agent of that name exists.
        InvalidRequest: a field is invalid.
    """
    agent = merge_fields(CustomAgent(name), fields)
    await asyncio.to_thread(session.harness.core.custom_agents.create, USER, agent)
    return serialize_agent(agent)


async def update_agent(session: HarnessSession, name: str, **fields: Unpack[AgentFields]) -> dict[str, Any]:
    """Update the given fields of a custom agent and return it.

    Raises:
        NotFound: the agent does not exist.
        Conflict: the agent is shared and read-only.
        InvalidRequest: a field is invalid.
    """
    custom_agents = session.harness.core.custom_agents
    agent = merge_fields(await asyncio.to_thread(custom_agents.load, USER, name), fields)
    await asyncio.to_thread(custom_agents.update, USER, agent)
    return serialize_agent(agent)


async def delete_agent(session: HarnessSession, name: str) -> None:
    """Delete a custom agent with its memory.

    Raises:
        NotFound: the agent does not exist.
        Conflict: the agent is shared and read-only.
    """
    await session.harness.delete_agent(USER, name)


async def list_models(session: HarnessSession) -> dict[str, Any]:
    """Return the configured models and the default."""
    await session.harness.core.saved_models.refresh()
    cards = session.harness.core.agents.model_cards()
    source = session.harness.core.source
    return {
        "models": [asdict(card) for card in cards],
        "default": cards[0].name,
        "token_usage": {"enabled": True},
        "problem": source.redact(source.problem) if source.problem else None,
    }


async def get_model(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return a model.

    Raises:
        NotFound: the model does not exist.
    """
    return asdict(session.harness.core.agents.model_card(name))


async def list_tools(session: HarnessSession) -> list[dict[str, Any]]:
    """Return the tools of the lead agent: built-in, configured, and those of connected MCP servers."""
    cards = await asyncio.to_thread(session.harness.core.agents.tool_cards, LOCAL_USER.user_id)
    return [asdict(card) for card in cards]


async def get_tool_policy(session: HarnessSession) -> dict[str, Any]:
    """Return the rules for tool calls, in the order of evaluation."""
    card = await asyncio.to_thread(session.harness.core.agents.policy_card)
    shown: dict[str, Any] = to_jsonable_python(asdict(card))
    return shown


async def get_features(session: HarnessSession) -> dict[str, Any]:
    """Return the enabled features, the sandbox and the models."""
    features: dict[str, Any] = to_jsonable_python(asdict(session.harness.features()))
    return features


async def get_user_profile(session: HarnessSession) -> dict[str, str]:
    """Return the user profile."""
    return {"content": await session.harness.resources.profiles.get(LOCAL_USER)}


async def update_user_profile(session: HarnessSession, content: str) -> dict[str, str]:
    """Replace the user profile, which is shown to agents; an empty text deletes it.

    Raises:
        InvalidRequest: the profile is too long.
    """
    return {"content": await session.harness.resources.profiles.put(LOCAL_USER, content)}


class AgentsClient(Resource):
    """Custom agents."""

    list, alist = sync_and_async(list_agents)
    get, aget = sync_and_async(get_agent)
    create, acreate = sync_and_async(create_agent)
    update, aupdate = sync_and_async(update_agent)
    delete, adelete = sync_and_async(delete_agent)


class ModelsClient(Resource):
    """Configured models."""

    list, alist = sync_and_async(list_models)
    get, aget = sync_and_async(get_model)


class ToolsClient(Resource):
    """Tools of the lead agent and the policy for their calls."""

    list, alist = sync_and_async(list_tools)
    get_policy, aget_policy = sync_and_async(get_tool_policy)


class FeaturesClient(Resource):
    """Enabled features."""

    get, aget = sync_and_async(get_features)


class ProfileClient(Resource):
    """User profile that is shown to agents."""

    get, aget = sync_and_async(get_user_profile)
    update, aupdate = sync_and_async(update_user_profile)


def merge_fields(agent: CustomAgent, fields: AgentFields) -> CustomAgent:
    """Return `agent` with the given fields replaced."""
    merged = {**agent.config.model_dump(), "soul": agent.soul, **fields}
    try:
        valid = dict(validate(AgentDefinition, from_mapping(merged, f"agent {agent.name!r}")))
    except ConfigError as error:
        raise InvalidRequest(str(error)) from None
    return replace(agent, soul=valid.pop("soul"), config=CustomAgentConfig(**valid))


def serialize_agent(agent: CustomAgent) -> dict[str, Any]:
    """Return an agent in the shape of the HTTP API."""
    return {"name": agent.name, **agent.config.model_dump(mode="json"), "soul": agent.soul}
