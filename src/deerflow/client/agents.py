"""Custom agents, the models, tools, features and user profile they work with, and what they use."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypedDict, Unpack

import orjson
from pydantic_core import to_jsonable_python

from deerflow.client.session import (
    HarnessSession,
    RemoteRequest,
    RemoteSession,
    Resource,
    quote_segment,
    remotely,
    route,
    sync_and_async,
)
from deerflow.config.loader.document import from_mapping
from deerflow.config.loader.validation import validate
from deerflow.config.sections.agents import CustomAgent, CustomAgentConfig
from deerflow.domain.errors import ConfigError, InvalidRequest
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import ReasoningEffort, RunStatus
from deerflow.domain.usage import PrefixCacheUsage, TokenCounts
from deerflow.services.usage import Money, RunSpending, Spending, UsageShare

USER = LOCAL_USER.user_id
RUN_FIELDS = ("run_id", "thread_id", "assistant_id", "status", "error", "created_at", "updated_at")


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


@route("GET /agents", pick="agents")
async def list_agents(session: HarnessSession) -> list[dict[str, Any]]:
    """Return the custom agents, by name."""
    found = await asyncio.to_thread(session.harness.core.custom_agents.list, USER)
    return [serialize_agent(agent) for agent in found]


@route("GET /agents/{name}")
async def get_agent(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return a custom agent.

    Raises:
        NotFound: the agent does not exist.
    """
    return serialize_agent(await asyncio.to_thread(session.harness.core.custom_agents.load, USER, name))


@route("POST /agents")
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


async def update_remote_agent(session: RemoteSession, name: str, **fields: Unpack[AgentFields]) -> dict[str, Any]:
    """Update the given fields of a custom agent of a server."""
    kept = await session.run(get_agent, name)
    place, body = f"/agents/{quote_segment('', name)}", to_jsonable_python({**kept, **fields})
    agent: dict[str, Any] = orjson.loads((await session.send(RemoteRequest("PUT", place, body=body))).content)
    return agent


@remotely(update_remote_agent)
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


@route("DELETE /agents/{name}")
async def delete_agent(session: HarnessSession, name: str) -> None:
    """Delete a custom agent with its memory.

    Raises:
        NotFound: the agent does not exist.
        Conflict: the agent is shared and read-only.
    """
    await session.harness.delete_agent(USER, name)


@route("GET /models")
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


@route("GET /models/{name}")
async def get_model(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return a model.

    Raises:
        NotFound: the model does not exist.
    """
    return asdict(session.harness.core.agents.model_card(name))


@route("GET /tools", pick="tools")
async def list_tools(session: HarnessSession) -> list[dict[str, Any]]:
    """Return the tools of the lead agent: built-in, configured, and those of connected MCP servers."""
    cards = await asyncio.to_thread(session.harness.core.agents.tool_cards, LOCAL_USER.user_id)
    return [asdict(card) for card in cards]


@route("GET /policy")
async def get_tool_policy(session: HarnessSession) -> dict[str, Any]:
    """Return the rules for tool calls, in the order of evaluation."""
    card = await asyncio.to_thread(session.harness.core.agents.policy_card)
    shown: dict[str, Any] = to_jsonable_python(asdict(card))
    return shown


@route("GET /features")
async def get_features(session: HarnessSession) -> dict[str, Any]:
    """Return the enabled features, the sandbox and the models."""
    features: dict[str, Any] = to_jsonable_python(asdict(session.harness.features()))
    return features


@route("GET /user-profile")
async def get_user_profile(session: HarnessSession) -> dict[str, str]:
    """Return the user profile."""
    return {"content": await session.harness.resources.profiles.get(LOCAL_USER)}


@route("PUT /user-profile")
async def update_user_profile(session: HarnessSession, content: str) -> dict[str, str]:
    """Replace the user profile, which is shown to agents; an empty text deletes it.

    Raises:
        InvalidRequest: the profile is too long.
    """
    return {"content": await session.harness.resources.profiles.put(LOCAL_USER, content)}


@route("GET /threads/{thread_id}/token-usage")
async def get_token_usage(session: HarnessSession, thread_id: str) -> dict[str, Any]:
    """Return the tokens and cost of a thread, by model and by caller, and the usage of the model's context window.

    Raises:
        NotFound: the thread does not exist.
    """
    usage = await session.harness.resources.usage.get_thread_usage(thread_id, LOCAL_USER)
    context = usage.context
    window = context.window_tokens if context else None
    return {
        "thread_id": thread_id,
        "totals": serialize_spent(usage.totals),
        "by_model": serialize_shares(usage.by_model),
        "by_caller": serialize_shares(usage.by_caller),
        "context_usage": None
        if context is None
        else {
            "model": context.model,
            "used_tokens": context.used_tokens,
            "window_tokens": window,
            "fraction": round(context.used_tokens / window, 4) if window else None,
        },
    }


@route("GET /threads/{thread_id}/runs/{run_id}/token-usage")
async def get_run_usage(session: HarnessSession, thread_id: str, run_id: str) -> dict[str, Any]:
    """Return the tokens and cost of a run, which are known when it has ended, and its use of the prefix cache so far.

    Raises:
        NotFound: the run does not exist.
    """
    run, usage = await session.harness.runs.get(thread_id, run_id, LOCAL_USER), session.harness.resources.usage
    cache = serialize_prefix_cache(await usage.get_prefix_cache(run))
    return {**serialize_spent(await usage.get_run_spending(run)), "prefix_cache": cache}


@route("GET /console/stats")
async def get_stats(session: HarnessSession) -> dict[str, Any]:
    """Return the number of threads and runs, and their total usage."""
    stats = await session.harness.resources.usage.get_stats(LOCAL_USER)
    by_status = {status.value: count for status, count in stats.runs.items()}
    runs = sum(by_status.values())
    return {
        "threads": stats.threads,
        "runs": runs,
        "runs_by_status": by_status,
        "totals": serialize_spent(stats.totals),
    }


@route("GET /console/runs")
async def list_all_runs(
    session: HarnessSession, limit: int = 50, offset: int = 0, status: RunStatus | None = None
) -> dict[str, Any]:
    """Return the runs of all threads, newest first, each with its usage."""
    found = await session.harness.resources.usage.list_runs(LOCAL_USER, limit + 1, offset, status)
    following = offset + limit if len(found) > limit else None
    return {"runs": [serialize_run(each) for each in found[:limit]], "next_offset": following}


@route("GET /console/usage")
async def get_usage(session: HarnessSession, days: int = 30, timezone: str = "UTC") -> dict[str, Any]:
    """Return the usage of the latest `days`, by calendar day in a time zone.

    Raises:
        InvalidRequest: the time zone is unknown.
    """
    usage = await session.harness.resources.usage.get_daily_usage(LOCAL_USER, days, timezone)
    budget = session.harness.core.source.refresh().config.budget
    return {
        "timezone": timezone,
        "totals": serialize_spent(usage.totals),
        "days": serialize_shares(usage.by_day),
        "by_model": serialize_shares(usage.by_model),
        "by_caller": serialize_shares(usage.by_caller),
        "by_thread": [
            {"thread_id": each.thread_id, "title": each.title, **serialize_spent(each.spending)}
            for each in usage.by_thread
        ],
        "run_limits": {
            "max_tokens": budget.max_tokens,
            "max_cost": serialize_money(Money(budget.max_cost, budget.currency)) if budget.max_cost else None,
        },
    }


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
    share = {"shared_by": None, "access": None, "has_editors": False}  # one user has an embedded client
    return {"name": agent.name, **agent.config.model_dump(mode="json"), "soul": agent.soul, **share}


class UsageClient(Resource):
    """Token usage and cost."""

    get, aget = sync_and_async(get_usage)
    get_thread, aget_thread = sync_and_async(get_token_usage)
    get_run, aget_run = sync_and_async(get_run_usage)
    get_stats, aget_stats = sync_and_async(get_stats)


def serialize_spent(spent: Spending) -> dict[str, Any]:
    """Return usage in the shape of the HTTP API."""
    counts = {name: getattr(spent.counts, name) for name in TokenCounts.__slots__}
    return {
        **counts,
        "total_tokens": spent.counts.total_tokens,
        "cost": serialize_money(spent.cost) if spent.cost else None,
        "known_costs": [serialize_money(money) for money in spent.costs],
        "unpriced_tokens": spent.unpriced_tokens,
    }


def serialize_prefix_cache(usage: PrefixCacheUsage) -> dict[str, Any]:
    """Return the use of the prefix cache in the shape of the HTTP API."""
    breaks = [{"request": each.request, "caller": each.caller, **asdict(each.broken)} for each in usage.breaks]
    return {
        "requests": usage.requests,
        "prompt_tokens": usage.prompt_tokens,
        "prefix_tokens": usage.prefix_tokens,
        "prefix_fraction": usage.prefix_fraction,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "cached_fraction": usage.cached_fraction,
        "breaks": breaks,
    }


def serialize_money(money: Money) -> dict[str, str]:
    """Return an amount as a decimal string with its currency."""
    return {"amount": f"{money.amount:f}", "currency": money.currency}


def serialize_shares(shares: Sequence[UsageShare]) -> list[dict[str, Any]]:
    """Return the usage of several parts, each with its name."""
    return [serialize_share(share) for share in shares]


def serialize_share(share: UsageShare) -> dict[str, Any]:
    """Return the usage of one part with its name."""
    return {"name": share.name, **serialize_spent(share.spending)}


def serialize_run(spending: RunSpending) -> dict[str, Any]:
    """Return a run with its usage."""
    run = spending.run.run
    shown = {name: to_jsonable_python(getattr(run, name)) for name in RUN_FIELDS}
    lasted = (run.updated_at - run.created_at).total_seconds()
    return {
        **shown,
        "title": spending.run.title,
        "duration_seconds": lasted,
        "usage": serialize_spent(spending.spending),
    }
