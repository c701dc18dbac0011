"""Answers without words."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.model_calls.empty_answer import EmptyAnswerMiddleware, has_content
from deerflow.testing import Answer, ScriptedModel, calling, thinking


@tool
async def look() -> str:
    """Look."""
    return "a deer"


def agent_with(model: ScriptedModel):
    return create_agent(model, [look], middleware=[EmptyAnswerMiddleware()], state_schema=ThreadState)


async def ask(model: ScriptedModel) -> list[Any]:
    return (await agent_with(model).ainvoke({"messages": [HumanMessage("what is there?")]}))["messages"]


@pytest.mark.parametrize("empty", [Answer(), Answer("  \n"), thinking("hm"), Answer("<think>a deer?</think>\n")])
async def test_an_empty_answer_is_asked_for_once_more(empty: Answer) -> None:
    model = ScriptedModel.saying(empty, "A deer.")

    messages = await ask(model)

    assert [message.text for message in messages] == ["what is there?", "A deer."]
    nudge = model.requests[1].messages[-1]
    assert nudge.additional_kwargs == {"hide_from_ui": True}
    assert nudge.text.startswith("Your last reply had no text")


async def test_readers_are_told_that_the_model_is_asked_again() -> None:
    agent = agent_with(ScriptedModel.saying("", "A deer."))
    events = [event async for event in agent.astream({"messages": [HumanMessage("?")]}, stream_mode="custom")]
    assert [(event["type"], event["reason"]) for event in events] == [("llm_retry", "empty_answer")]


async def test_a_model_that_stays_silent_is_said_to_be_silent() -> None:
    messages = await ask(ScriptedModel.saying("", thinking("still nothing")))
    assert messages[-1].text.startswith("The model gave no answer, even when asked again.")
    assert messages[-1].response_metadata["stop_reason"] == "empty_answer"
    assert messages[-1].additional_kwargs["reasoning_content"] == "still nothing"


async def test_a_model_that_used_up_its_length_by_thinking_is_told_apart() -> None:
    cut = Answer(reasoning="on and on", finish_reason="length")
    assert "reached its length limit" in (await ask(ScriptedModel.saying(cut, cut)))[-1].text


async def test_a_nudged_model_may_call_a_tool() -> None:
    messages = await ask(ScriptedModel.saying("", calling("look"), "A deer."))
    assert messages[-1].text == "A deer."


@pytest.mark.parametrize("reason", ["content_filter", "refusal", "SAFETY"])
async def test_a_filtered_answer_is_explained_and_its_calls_are_not_made(reason: str) -> None:
    filtered = Answer("I was about to", calls=calling("look").calls, finish_reason=reason)
    model = ScriptedModel.saying(filtered)

    messages = await ask(model)

    assert messages[-1].tool_calls == []
    assert messages[-1].text.startswith("I was about to\n\nThe model's provider stopped this answer")
    assert messages[-1].response_metadata["stop_reason"] == "refused"
    assert len(model.requests) == 1


async def test_an_ordinary_answer_is_left_alone() -> None:
    messages = await ask(ScriptedModel.saying(Answer("cut but readable", finish_reason="length")))
    assert messages[-1].text == "cut but readable"


def test_the_sync_face_asks_again_too() -> None:
    messages = agent_with(ScriptedModel.saying("", "A deer.")).invoke({"messages": [HumanMessage("?")]})["messages"]
    assert messages[-1].text == "A deer."


@pytest.mark.parametrize(
    ("message", "says_something"),
    [
        (AIMessage([{"type": "reasoning", "reasoning": "hm"}]), False),
        (AIMessage([{"type": "text", "text": ""}]), False),
        (AIMessage([{"type": "image", "base64": "…", "mime_type": "image/png"}]), True),
        (AIMessage([{"type": "text", "text": "hi"}]), True),
        (AIMessage("<think>never closed"), False),
        (AIMessage("<think>a</think>b"), True),
    ],
)
def test_reasoning_alone_is_no_answer(message: AIMessage, says_something: bool) -> None:
    assert has_content(message) is says_something
