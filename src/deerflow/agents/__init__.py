"""Agents: model, tools, prompt and middlewares compiled into a graph."""

import asyncio
from typing import TYPE_CHECKING

from langchain_core.runnables import RunnableConfig

from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.spec import AgentGraph

if TYPE_CHECKING:
    from deerflow.agents.factory import create_deerflow_agent
    from deerflow.agents.ordering import Next, Prev

__all__ = ["Next", "Prev", "RuntimeFeatures", "create_deerflow_agent", "make_lead_agent"]


async def make_lead_agent(config: RunnableConfig) -> AgentGraph:
    """Build the lead agent for `config.yaml` and the given `config`. Servers that only know an import path use this.

    It is called once per run. Building reads files, so it is done in a thread and does not block the event loop.

    Args:
        config: `configurable` or `context` may hold `model_name` or `model`, `thinking_enabled`, `reasoning_effort`,
            `is_plan_mode`, `subagent_enabled`, `max_concurrent_subagents`, `agent_name`, `is_bootstrap`, `user_id`.
    """
    return await asyncio.to_thread(_build, config)


def _build(config: RunnableConfig) -> AgentGraph:
    """Build the agent. The only import from a higher layer: such a server has no harness to pass in."""
    from deerflow.harness.run_context import build_served_lead_agent

    return build_served_lead_agent(config)


def __getattr__(name: str) -> object:
    """Import on first use what loads LangChain's agents: a server starts without them."""
    if name == "create_deerflow_agent":
        from deerflow.agents.factory import create_deerflow_agent

        return create_deerflow_agent
    if name in ("Next", "Prev"):
        from deerflow.agents import ordering

        return getattr(ordering, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
