"""Entry point of the lead agent for servers that only know its import path, such as `langgraph dev`."""

import asyncio

from langchain_core.runnables import RunnableConfig

from deerflow.agents.spec import AgentGraph


async def make_lead_agent(config: RunnableConfig) -> AgentGraph:
    """Build the lead agent for `config.yaml` and the given `config`. Called once per run.

    Building reads files, so it is done in a thread and does not block the event loop.

    Args:
        config: `configurable` or `context` may hold `model_name` or `model`, `thinking_enabled`, `reasoning_effort`,
            `is_plan_mode`, `subagent_enabled`, `max_concurrent_subagents`, `agent_name`, `is_bootstrap`, `user_id`.
    """
    return await asyncio.to_thread(build, config)


def build(config: RunnableConfig) -> AgentGraph:
    """Build the agent. The only import from a higher layer: such a server has no harness to pass in."""
    from deerflow.harness.run_context import build_served_lead_agent

    return build_served_lead_agent(config)
