"""The `setup_agent` and `update_agent` tools: custom agents created and changed in conversation."""

import asyncio
from dataclasses import replace
from typing import Protocol, runtime_checkable

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool

from deerflow.agent_support.tools import as_tool, require_run_context
from deerflow.config.sections.agents import CustomAgent, CustomAgentConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import InvalidRequest


@runtime_checkable  # LangChain validates the arguments of a tool with isinstance
class AgentStore(Protocol):
    """Storage of custom agents. Its methods block."""

    def load(self, user_id: str, name: str) -> CustomAgent: ...
    def create(self, user_id: str, agent: CustomAgent) -> None: ...
    def update(self, user_id: str, agent: CustomAgent) -> None: ...


def build_setup_agent_tool(store: AgentStore) -> BaseTool:
    """Return the tool that creates a custom agent."""
    return as_tool(setup_agent, store=store)


def build_update_agent_tool(store: AgentStore) -> BaseTool:
    """Return the tool with which a custom agent changes itself."""
    return as_tool(update_agent, store=store)


async def setup_agent(
    store: AgentStore,
    soul: str,
    description: str,
    runtime: ToolRuntime[RunContext],
    name: str | None = None,
    skills: list[str] | None = None,
) -> str:
    """Create the custom agent this conversation is about, after the user has agreed to its soul.

    Args:
        soul: The whole SOUL.md in Markdown: who the agent is, how it speaks and works, what it never does.
        description: What the agent is for, in one line.
        name: Letters, digits and '-'. Leave it out when a name was chosen before the conversation.
        skills: The skills it may use; leave it out for all, give [] for none.
    """
    run = require_run_context(runtime)
    agent_name = run.agent_name or name
    if not agent_name:
        raise InvalidRequest("the agent has no name yet; ask the user for one and give it as `name`")
    if not soul.strip():
        raise InvalidRequest("`soul` is empty; write down who the agent is")
    config = CustomAgentConfig(description=description, skills=None if skills is None else tuple(skills))
    await asyncio.to_thread(store.create, run.user_id, CustomAgent(agent_name, config, soul))
    return f"The agent {agent_name!r} is ready. Tell the user that a new conversation with it can begin."


async def update_agent(
    store: AgentStore,
    runtime: ToolRuntime[RunContext],
    soul: str | None = None,
    description: str | None = None,
    skills: list[str] | None = None,
    tool_groups: list[str] | None = None,
    model: str | None = None,
) -> str:
    """Change who you are for future conversations, when the user asks for it. What is left out stays as it is.

    Args:
        soul: The whole new SOUL.md; it replaces the old one, so keep what is still true.
        description: What you are for, in one line.
        skills: The skills you may use; [] for none.
        tool_groups: The groups of tools you may use.
        model: The name of the model you answer with.
    """
    run = require_run_context(runtime)
    if run.agent_name is None:
        raise InvalidRequest("you are not a custom agent, so there is nothing to change")
    changes = {"description": description, "skills": skills, "tool_groups": tool_groups, "model": model}
    updates = {key: value for key, value in changes.items() if value is not None}
    if not updates and soul is None:
        raise InvalidRequest("say what to change: soul, description, skills, tool_groups or model")
    agent = await asyncio.to_thread(store.load, run.user_id, run.agent_name)
    config = CustomAgentConfig.model_validate({**agent.config.model_dump(), **updates})
    changed = replace(agent, config=config, soul=agent.soul if soul is None else soul)
    await asyncio.to_thread(store.update, run.user_id, changed)
    what = ", ".join([*updates, *(["soul"] if soul is not None else [])])
    return f"Changed: {what}. It takes effect in the next run."
