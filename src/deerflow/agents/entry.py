"""The lead agent for servers that know nothing but its name, such as `langgraph dev`."""

import asyncio
from collections.abc import Callable
from typing import cast

from langchain_core.runnables import RunnableConfig

from deerflow.agents.graph import AgentGraph
from deerflow.config.imports import load_object


async def make_lead_agent(config: RunnableConfig) -> AgentGraph:
    """The lead agent that `config.yaml` describes and `config` asks for; called once per run.

    It reads files, which would hold up a server's event loop, so it is awaited and does its work in a thread.

    Args:
        config: `configurable` or `context` may hold `model_name` or `model`, `thinking_enabled`, `reasoning_effort`,
            `is_plan_mode`, `subagent_enabled`, `max_concurrent_subagents`, `agent_name`, `is_bootstrap`, `user_id`.
    """
    return await asyncio.to_thread(build, config)


def build(config: RunnableConfig) -> AgentGraph:
    """The one look upwards: such a server gives no harness, so the composition root has to be asked for the parts."""
    make = cast(Callable[[RunnableConfig], AgentGraph], load_object("deerflow.harness.bare:build_bare_lead_agent"))
    return make(config)
