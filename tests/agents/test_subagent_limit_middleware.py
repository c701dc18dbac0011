"""The limit of subagents per reply."""

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.dangling_tool_call_middleware import is_complete
from deerflow.agents.middlewares.subagent_limit_middleware import SubagentLimitMiddleware
from deerflow.testing import ScriptedModel, calling, in_parallel


@tool
def task(prompt: str) -> str:
    """Delegate."""
    return f"did {prompt}"


@tool
def look() -> str:
    """Look."""
    return "seen"


SIX_TASKS = in_parallel(calling("look"), *(calling("task", prompt=str(number)) for number in range(6)), calling("look"))


@pytest.mark.parametrize(("limit", "started"), [(-1, 1), (0, 1), (2, 2), (3, 3), (4, 4), (99, 4)])
async def test_tasks_beyond_the_limit_are_dropped_and_other_calls_kept(limit: int, started: int) -> None:
    model = ScriptedModel.saying(SIX_TASKS, "Done.")
    agent = create_agent(model, [task, look], middleware=[SubagentLimitMiddleware(limit)], state_schema=ThreadState)

    messages = (await agent.ainvoke({"messages": [HumanMessage("go")]}))["messages"]

    results = [message.text for message in messages if isinstance(message, ToolMessage)]
    assert results == ["seen", *(f"did {number}" for number in range(started)), "seen"]
    assert is_complete(messages)


def test_a_reply_within_the_limit_is_unchanged() -> None:
    model = ScriptedModel.saying(in_parallel(calling("task", prompt="a"), calling("task", prompt="b")), "Done.")
    agent = create_agent(model, [task], middleware=[SubagentLimitMiddleware()], state_schema=ThreadState)
    messages = agent.invoke({"messages": [HumanMessage("go")]})["messages"]
    assert len(messages[1].tool_calls) == 2
