"""The scripted model."""

import asyncio

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from deerflow.domain.errors import ModelRateLimited
from deerflow.testing import Answer, ScriptedModel, Stall, ToolRequest, Usage, calling, in_parallel, thinking


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_agent_follows_the_script() -> None:
    model = ScriptedModel.saying(calling("add", a=1, b=2), "It is 3.")
    agent = create_agent(model, [add])

    result = await agent.ainvoke({"messages": [HumanMessage("1 + 2?")]})

    assert [message.content for message in result["messages"]] == ["1 + 2?", "", "3", "It is 3."]
    assert model.requests[0].tool_names == ["add"]
    assert [message.type for message in model.requests[1].messages] == ["human", "ai", "tool"]


async def test_streams_reasoning_then_text_word_by_word() -> None:
    model = ScriptedModel.saying(thinking("Let me see.", then="Two words"))

    chunks = [chunk async for chunk in model.astream("hi")]

    assert [chunk.additional_kwargs.get("reasoning_content") for chunk in chunks[:3]] == ["Let", " me", " see."]
    assert [chunk.content for chunk in chunks[3:]] == ["Two", " words", ""]
    assert chunks[-1].usage_metadata is not None and chunks[-1].response_metadata["finish_reason"] == "stop"


async def test_call_ids_are_unique() -> None:
    parallel = in_parallel(calling("add", a=1, b=2), calling("add", a=3, b=4))
    model = ScriptedModel.saying(parallel, parallel)

    first, second = await model.ainvoke("hi"), await model.ainvoke("hi")

    assert [call["args"] for call in first.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert len({call["id"] for call in first.tool_calls + second.tool_calls}) == 4


async def test_malformed_arguments_become_invalid_tool_calls() -> None:
    model = ScriptedModel.saying(Answer(calls=(ToolRequest("add", "a=1"),)))

    message = await model.ainvoke("hi")

    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["args"] == "a=1"


async def test_lines_may_be_exceptions_or_functions() -> None:
    model = ScriptedModel.saying(ModelRateLimited("slow down"), lambda messages: f"You said {messages[-1].text}.")

    with pytest.raises(ModelRateLimited):
        await model.ainvoke("hi")
    assert (await model.ainvoke("hi")).content == "You said hi."


async def test_exhausted_script_raises() -> None:
    model = ScriptedModel.saying("one")
    await model.ainvoke("first")

    with pytest.raises(AssertionError, match="the script ended before call 2, which asked 'second'"):
        await model.ainvoke("second")


async def test_stall_waits_for_release() -> None:
    model = ScriptedModel.saying(Stall(Answer("half an")))
    async with asyncio.timeout(5):
        answer = asyncio.create_task(model.ainvoke("hi"))
        await model.waiting.wait()
        assert not answer.done()
        model.release()

        assert (await answer).content == "half an"
    assert not model.waiting.is_set()


async def test_stall_can_be_cancelled() -> None:
    model = ScriptedModel.saying(Stall(), "next")
    async with asyncio.timeout(5):
        answer = asyncio.create_task(model.ainvoke("hi"))
        await model.waiting.wait()
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer

        assert (await model.ainvoke("again")).content == "next"


def test_sync_methods_return_the_same() -> None:
    model = ScriptedModel.saying("one two", Answer("three", usage=Usage(1, 2)), Stall())

    assert [chunk.content for chunk in model.stream("hi")] == ["one", " two", ""]
    message = model.invoke("hi")
    assert isinstance(message, AIMessage)
    assert message.usage_metadata is not None and message.usage_metadata["total_tokens"] == 3
    with pytest.raises(AssertionError, match="async methods"):
        model.invoke("hi")


async def test_structured_output_uses_a_tool_call() -> None:
    class Point(BaseModel):
        """A point."""

        x: int

    model = ScriptedModel.saying(calling("Point", x=1))

    assert await model.with_structured_output(Point).ainvoke("hi") == Point(x=1)
    assert model.requests[0].options["tool_choice"] == "any"
