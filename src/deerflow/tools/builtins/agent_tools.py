"""`setup_agent` and `update_agent`: agents that are made, and change themselves, in conversation."""

import asyncio
from dataclasses import replace
from typing import Protocol, runtime_checkable

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool

from deerflow.config.agents import CustomAgent, CustomAgentConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import InvalidRequest
from deerflow.tools.functions import as_tool
from deerflow.tools.run import current_run


@runtime_checkable  # LangChain looks at the arguments of a tool with isinstance
class AgentShelf(Protocol):
    """Where custom agents are kept. Its methods read and write files, so they block."""

    def load(self, user_id: str, name: str) -> CustomAgent: ...
    def create(self, user_id: str, agent: CustomAgent) -> None: ...
    def update(self, user_id: str, agent: CustomAgent) -> None: ...


def setup_agent_tool(shelf: AgentShelf) -> BaseTool:
    """The tool that ends the conversation in which an agent is made."""
    return as_tool(setup_agent, shelf=shelf)


def update_agent_tool(shelf: AgentShelf) -> BaseTool:
    """The tool with which a custom agent changes itself."""
    return as_tool(update_agent, shelf=shelf)


async def setup_agent(
    shelf: AgentShelf,
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
    run = current_run(runtime)
    chosen = run.agent_name or name
    if not chosen:
        raise InvalidRequest("the agent has no name yet; ask the user for one and give it as `name`")
    if not soul.strip():
        raise InvalidRequest("`soul` is empty; write down who the agent is")
    config = CustomAgentConfig(description=description, skills=None if skills is None else tuple(skills))
    await asyncio.to_thread(shelf.create, run.user_id, CustomAgent(chosen, config, soul))
    return f"The agent {chosen!r} is ready. Tell the user that a new conversation with it can begin."


async def update_agent(
    shelf: AgentShelf,
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
    run = current_run(runtime)
    if run.agent_name is None:
        raise InvalidRequest("you are not a custom agent, so there is nothing to change")
    changes = {"description": description, "skills": skills, "tool_groups": tool_groups, "model": model}
    given = {key: value for key, value in changes.items() if value is not None}
    if not given and soul is None:
        raise InvalidRequest("say what to change: soul, description, skills, tool_groups or model")
    agent = await asyncio.to_thread(shelf.load, run.user_id, run.agent_name)
    config = CustomAgentConfig.model_validate({**agent.config.model_dump(), **given})
    changed = replace(agent, config=config, soul=agent.soul if soul is None else soul)
    await asyncio.to_thread(shelf.update, run.user_id, changed)
    what = ", ".join([*given, *(["soul"] if soul is not None else [])])
    return f"Changed: {what}. It takes effect in the next run."
