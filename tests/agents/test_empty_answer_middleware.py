"""Handling of empty and filtered answers."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.model_calls import EmptyAnswerMiddleware, has_content
from deerflow.testing import Answer, ScriptedModel, calling, thinking


@tool
async def look() -> str:
    """Look."""
    return "a deer"


def create_test_agent(model: ScriptedModel) -> Any:
    return create_agent(model, [look], middleware=[EmptyAnswerMiddleware()], state_schema=ThreadState)


async def ask(model: ScriptedModel) -> list[Any]:
    return (await create_test_agent(model).ainvoke({"messages": [HumanMessage("what is there?")]}))["messages"]


@pytest.mark.parametrize("empty", [Answer(), Answer("  \n"), thinking("hm"), Answer("<think>a deer?</think>\n")])
async def test_an_empty_answer_is_retried_once(empty: Answer) -> None:
    model = ScriptedModel.saying(empty, "A deer.")

    messages = await ask(model)

    assert [message.text for message in messages] == ["what is there?", "A deer."]
    retry_message = model.requests[1].messages[-1]
    assert retry_message.additional_kwargs == {"hide_from_ui": True}
    assert retry_message.text.startswith("Your last reply had no text")


async def test_the_retry_is_streamed_as_an_event() -> None:
    agent = create_test_agent(ScriptedModel.saying("", "A deer."))
    events = [event async for event in agent.astream({"messages": [HumanMessage("?")]}, stream_mode="custom")]
    assert [(event["type"], event["reason"]) for event in events] == [("llm_retry", "empty_answer")]


async def test_a_second_empty_answer_is_reported() -> None:
    messages = await ask(ScriptedModel.saying("", thinking("still nothing")))
    assert messages[-1].text.startswith("The model gave no answer, even when asked again.")
    assert messages[-1].response_metadata["stop_reason"] == "empty_answer"
    assert messages[-1].additional_kwargs["reasoning_content"] == "still nothing"


async def test_reasoning_that_reaches_the_length_limit_is_reported() -> None:
    cut = Answer(reasoning="on and on", finish_reason="length")
    assert "reached its length limit" in (await ask(ScriptedModel.saying(cut, cut)))[-1].text


async def test_a_retried_model_may_call_a_tool() -> None:
    messages = await ask(ScriptedModel.saying("", calling("look"), "A deer."))
    assert messages[-1].text == "A deer."


@pytest.mark.parametrize("reason", ["content_filter", "refusal", "SAFETY"])
async def test_a_filtered_answer_is_explained_and_its_calls_are_dropped(reason: str) -> None:
    filtered = Answer("I was about to", calls=calling("look").calls, finish_reason=reason)
    model = ScriptedModel.saying(filtered)

    messages = await ask(model)

    assert messages[-1].tool_calls == []
    assert messages[-1].text.startswith("I was about to\n\nThe model's provider stopped this answer")
    assert messages[-1].response_metadata["stop_reason"] == "refused"
    assert len(model.requests) == 1


async def test_a_regular_answer_is_unchanged() -> None:
    messages = await ask(ScriptedModel.saying(Answer("cut but readable", finish_reason="length")))
    assert messages[-1].text == "cut but readable"


def test_synchronous_calls_retry_too() -> None:
    messages = create_test_agent(ScriptedModel.saying("", "A deer.")).invoke({"messages": [HumanMessage("?")]})[
        "messages"
    ]
    assert messages[-1].text == "A deer."


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (AIMessage([{"type": "reasoning", "reasoning": "hm"}]), False),
        (AIMessage([{"type": "text", "text": ""}]), False),
        (AIMessage([{"type": "image", "base64": "…", "mime_type": "image/png"}]), True),
        (AIMessage([{"type": "text", "text": "hi"}]), True),
        (AIMessage("<think>never closed"), False),
        (AIMessage("<think>a</think>b"), True),
    ],
)
def test_only_visible_content_is_an_answer(message: AIMessage, expected: bool) -> None:
    assert has_content(message) is expected
