"""Compaction of long threads in model requests and state."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ValidationError

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agent_support.tokens import count_tokens
from deerflow.agents.middlewares.summarization_middleware import SummarizationMiddleware
from deerflow.config.sections.agents import SummarizationConfig
from deerflow.domain.errors import ModelContextTooLong, ModelRejected
from deerflow.testing import Answer, ScriptedModel, Usage, calling

CONFIG: Any = {"configurable": {"thread_id": "t"}}
SETTINGS = SummarizationConfig.model_validate(
    {"trigger": {"type": "messages", "value": 15}, "keep": {"type": "messages", "value": 3}}
)


def create_test_agent(
    model: ScriptedModel, settings: SummarizationConfig, summarizer: ScriptedModel | None = None, tools: Any = ()
) -> Any:
    middleware = SummarizationMiddleware(settings, summarizer)
    return create_agent(model, tools, middleware=[middleware], state_schema=ThreadState, checkpointer=InMemorySaver())


async def send_messages(graph: Any, *inputs: str | HumanMessage) -> list[BaseMessage]:
    for text in inputs:
        message = HumanMessage(text) if isinstance(text, str) else text
        await graph.ainvoke({"messages": [message]}, CONFIG)
    messages: list[BaseMessage] = (await graph.aget_state(CONFIG)).values["messages"]
    return messages


def make_questions(count: int) -> list[str]:
    return [f"question {number:03}" for number in range(count)]


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages]


async def test_an_extract_replaces_a_failed_summary() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    await send_messages(
        create_test_agent(model, SETTINGS, ScriptedModel.saying(ModelRejected("no credit"))), *make_questions(8)
    )
    summary = model.requests[-1].messages[0]
    assert "question 000" in summary.text
    assert summary.additional_kwargs["hide_from_ui"]


async def test_an_extract_replaces_an_empty_summary() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    await send_messages(create_test_agent(model, SETTINGS, ScriptedModel.saying("  ")), *make_questions(8))
    assert "question 000" in model.requests[-1].messages[0].text


async def test_old_messages_are_replaced_by_a_summary() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    summarizer = ScriptedModel.saying("They went through questions 000 to 005.")
    messages = await send_messages(create_test_agent(model, SETTINGS, summarizer), *make_questions(8))
    assert texts(messages) == ["question 006", "yes", "question 007", "yes"]
    assert "They went through questions" in model.requests[-1].messages[0].text
    assert texts(model.requests[-1].messages[1:]) == ["question 006", "yes", "question 007"]


async def test_a_summary_includes_the_previous_one() -> None:
    model = ScriptedModel.saying(*["yes"] * 16)
    summarizer = ScriptedModel.saying("Notes one.", "Notes two.")
    await send_messages(create_test_agent(model, SETTINGS, summarizer), *make_questions(16))
    assert "Notes one." in summarizer.requests[1].messages[1].text


async def test_pinned_messages_are_kept() -> None:
    model = ScriptedModel.saying(*["yes"] * 9)
    rule = HumanMessage("Always answer in rhyme.", additional_kwargs={"pinned": True})
    messages = await send_messages(
        create_test_agent(model, SETTINGS, ScriptedModel.saying("Notes.")), rule, *make_questions(8)
    )
    assert messages[0].text == "Always answer in rhyme."
    assert "Always answer in rhyme." in texts(model.requests[-1].messages)


async def test_the_latest_request_is_kept_during_many_tool_calls() -> None:
    def look(at: str) -> str:
        """Look at something."""
        return f"nothing at {at}"

    model = ScriptedModel.saying(*(calling("look", at=str(number)) for number in range(20)), "done")
    summarizer = ScriptedModel.saying(*["Notes."] * 9)
    await send_messages(
        create_test_agent(model, SETTINGS, summarizer, tools=[look]), "Look everywhere until you find it."
    )
    assert summarizer.requests
    for request in model.requests:
        assert "Look everywhere until you find it." in texts(request.messages)


async def test_summaries_are_not_streamed() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    graph = create_test_agent(model, SETTINGS, ScriptedModel.saying("Secret notes."))
    await send_messages(graph, *make_questions(7))
    chunks = [part async for part in graph.astream({"messages": [("user", "more")]}, CONFIG, stream_mode="messages")]
    assert "".join(chunk.text for chunk, _ in chunks) == "yes"


async def test_compaction_adds_no_nodes_to_the_graph() -> None:
    plain = create_agent(ScriptedModel.saying(), state_schema=ThreadState)
    assert set(create_test_agent(ScriptedModel.saying(), SETTINGS).nodes) == set(plain.nodes)


async def test_no_request_is_larger_than_the_window() -> None:
    model = ScriptedModel.saying(*["yes " * 100] * 40)
    model.profile = {"max_input_tokens": 1000}
    graph = create_test_agent(model, SummarizationConfig(), ScriptedModel.saying(*["Notes."] * 40))
    await send_messages(graph, *(f"{number} " + "please " * (50 * (number % 9)) for number in range(40)))
    assert all(count_tokens(request.messages) <= 950 for request in model.requests)
    assert all(request.messages[-1].text.startswith(f"{number} ") for number, request in enumerate(model.requests))


async def test_the_window_shrinks_when_the_model_reports_more_tokens() -> None:
    model = ScriptedModel.saying(Answer("yes", usage=Usage(input_tokens=3000)), *["yes"] * 3)
    model.profile = {"max_input_tokens": 4000}
    graph = create_test_agent(model, SummarizationConfig(), ScriptedModel.saying(*["Notes."] * 4))
    await send_messages(graph, "word " * 800, "word " * 800)
    assert count_tokens(model.requests[1].messages) <= 1900


async def test_synchronous_calls_compact_too() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    graph = create_test_agent(model, SETTINGS, ScriptedModel.saying("Notes."))
    for question in make_questions(8):
        state = graph.invoke({"messages": [("user", question)]}, CONFIG)
    assert texts(state["messages"]) == ["question 006", "yes", "question 007", "yes"]


async def test_short_conversations_are_unchanged() -> None:
    model = ScriptedModel.saying("yes", "no")
    messages = await send_messages(create_test_agent(model, SummarizationConfig()), "one", "two")
    assert texts(messages) == ["one", "yes", "two", "no"]
    assert isinstance(messages[1], AIMessage)


@pytest.mark.parametrize(
    "settings",
    [
        {"trigger": {"type": "fraction", "value": 2}},
        {"trigger": [{"type": "messages", "value": 1.5}]},
        {"trigger": []},
        {"keep": {"type": "messages", "value": 300}},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SummarizationConfig.model_validate(settings)


async def test_a_request_that_proved_too_long_is_summarized_and_sent_again() -> None:
    roomy = SummarizationConfig.model_validate({"trigger": {"type": "fraction", "value": 0.8}})
    long = [f"question {number} " + "with many words " * 200 for number in range(12)]
    model = ScriptedModel.saying(*["yes"] * 11, ModelContextTooLong("prompt is too long"), "Answered.")
    messages = await send_messages(create_test_agent(model, roomy, ScriptedModel.saying("They asked much.")), *long)
    assert messages[-1].text == "Answered."
    assert "They asked much." in model.requests[-1].messages[0].text
    assert 2 * count_tokens(model.requests[-1].messages) < 1.5 * count_tokens(model.requests[-2].messages)


async def test_a_request_that_cannot_be_shortened_enough_fails_with_its_reason() -> None:
    refusals = [ModelContextTooLong("prompt is too long"), ModelContextTooLong("still too long")]
    with pytest.raises(ModelContextTooLong, match="prompt is too long"):
        await send_messages(create_test_agent(ScriptedModel.saying(*refusals), SummarizationConfig()), "one question")
