"""Tool errors as the model sees them."""

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp, NodeCancelledError
from langgraph.types import Command, interrupt

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.dangling_tool_call_middleware import is_complete
from deerflow.agents.middlewares.tool_error_handling_middleware import ToolErrorHandlingMiddleware
from deerflow.domain.errors import FileProblem
from deerflow.testing import Answer, ScriptedModel, ToolRequest, calling, in_parallel


@tool
async def divide(a: int, b: int) -> float:
    """Divide a by b."""
    return a / b


@tool
async def shout(text: str) -> str:
    """Fail with a long text."""
    raise ValueError(text * 1000)


@tool
async def open_file(path: str) -> str:
    """Open a file."""
    raise FileProblem(f"there is no file {path!r}; list the folder first")


@tool
async def ask() -> str:
    """Ask a person."""
    return str(interrupt("which one?"))


@tool
async def leave() -> str:
    """Steer the graph."""
    raise GraphBubbleUp


@tool
async def stop() -> str:
    """Be cancelled."""
    raise asyncio.CancelledError


async def run_failing_call(call: Answer) -> BaseMessage:
    model = ScriptedModel.saying(call, "I see.")
    answer = await create_test_agent(model).ainvoke({"messages": [HumanMessage("go")]})
    assert answer["messages"][-1].text == "I see."
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage) and result.status == "error"
    return result


def create_test_agent(model: ScriptedModel, **options: Any) -> Any:
    tools = [divide, shout, open_file, ask, leave, stop]
    return create_agent(model, tools, middleware=[ToolErrorHandlingMiddleware()], state_schema=ThreadState, **options)


async def test_an_exception_becomes_an_error_with_tool_class_and_advice() -> None:
    result = await run_failing_call(calling("divide", a=1, b=0))
    assert result.name == "divide"
    assert result.text == (
        "Error: divide failed with ZeroDivisionError: division by zero\n"
        "Try other arguments or another tool, or go on with what you have."
    )


async def test_long_details_are_truncated() -> None:
    assert len((await run_failing_call(calling("shout", text="ab"))).text) < 650


async def test_an_error_written_for_the_model_has_no_advice() -> None:
    result = await run_failing_call(calling("open_file", path="/a"))
    assert result.text == "Error: open_file failed with FileProblem: there is no file '/a'; list the folder first"


async def test_invalid_arguments_are_named_but_not_repeated() -> None:
    result = await run_failing_call(calling("divide", a="x" * 10_000, b=1))
    assert result.text.startswith(
        "Error: divide was not called, its arguments do not fit: a: Input should be a valid int"
    )
    assert len(result.text) < 650


async def test_an_unknown_tool_returns_similar_names() -> None:
    result = await run_failing_call(calling("divde", a=1, b=2))
    assert result.text == "Error: there is no tool 'divde'. Did you mean divide?"


async def test_an_unknown_tool_without_similar_names_returns_an_error() -> None:
    result = await run_failing_call(calling("zzzzzzzz"))
    assert result.text == (
        "Error: there is no tool 'zzzzzzzz'. Use one of those you were given, or answer without tools."
    )


async def test_interrupts_pass_and_can_be_resumed() -> None:
    agent = create_test_agent(ScriptedModel.saying(calling("ask"), "Fine."), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}

    paused = await agent.ainvoke({"messages": [HumanMessage("go")]}, config)
    assert paused["__interrupt__"][0].value == "which one?"

    answer = await agent.ainvoke(Command(resume="the first"), config)
    assert [message.text for message in answer["messages"][-2:]] == ["the first", "Fine."]


async def test_graph_control_flow_and_cancellation_pass() -> None:
    cancelled_agent = create_test_agent(ScriptedModel.saying(calling("stop")))
    with pytest.raises(NodeCancelledError):
        await cancelled_agent.ainvoke({"messages": [HumanMessage("go")]})

    control_flow_agent = create_test_agent(ScriptedModel.saying(calling("leave")))
    with pytest.raises(GraphBubbleUp):
        await control_flow_agent.ainvoke({"messages": [HumanMessage("go")]})


async def test_each_of_300_parallel_calls_gets_a_result() -> None:
    many = in_parallel(*(calling("divide", a=number, b=number % 2) for number in range(200)))
    unknown = tuple(ToolRequest("divid") for _ in range(100))
    model = ScriptedModel.saying(Answer(calls=(*many.calls, *unknown)), "That was a lot.")

    answer = await create_test_agent(model).ainvoke({"messages": [HumanMessage("go")]})

    assert is_complete(answer["messages"])
    assert sum(isinstance(message, ToolMessage) for message in answer["messages"]) == 300
    assert answer["messages"][-1].text == "That was a lot."


def test_synchronous_calls_report_errors_too() -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise KeyError("key")

    model = ScriptedModel.saying(calling("fail"), "I see.")
    agent = create_agent(model, [fail], middleware=[ToolErrorHandlingMiddleware()], state_schema=ThreadState)
    answer = agent.invoke({"messages": [HumanMessage("go")]})
    assert answer["messages"][-2].text.startswith("Error: fail failed with KeyError: 'key'\nTry")
