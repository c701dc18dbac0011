"""Long conversations: what the model sees, what the thread remembers."""

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
from deerflow.domain.errors import ModelRejected
from deerflow.testing import Answer, ScriptedModel, Usage, calling

CONFIG: Any = {"configurable": {"thread_id": "t"}}
AFTER_FIVE = SummarizationConfig.model_validate(
    {"trigger": {"type": "messages", "value": 15}, "keep": {"type": "messages", "value": 3}}
)


def agent(
    model: ScriptedModel, settings: SummarizationConfig, writer: ScriptedModel | None = None, tools: Any = ()
) -> Any:
    middleware = SummarizationMiddleware(settings, writer)
    return create_agent(model, tools, middleware=[middleware], state_schema=ThreadState, checkpointer=InMemorySaver())


async def talk(graph: Any, *questions: str | HumanMessage) -> list[BaseMessage]:
    for question in questions:
        message = HumanMessage(question) if isinstance(question, str) else question
        await graph.ainvoke({"messages": [message]}, CONFIG)
    messages: list[BaseMessage] = (await graph.aget_state(CONFIG)).values["messages"]
    return messages


def questions(count: int) -> list[str]:
    return [f"question {number:03}" for number in range(count)]


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages]


async def test_when_the_writer_fails_an_extract_takes_its_place() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    await talk(agent(model, AFTER_FIVE, ScriptedModel.saying(ModelRejected("no credit"))), *questions(8))
    note = model.requests[-1].messages[0]
    assert "question 000" in note.text
    assert note.additional_kwargs["hide_from_ui"]


async def test_when_the_writer_says_nothing_an_extract_takes_its_place() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    await talk(agent(model, AFTER_FIVE, ScriptedModel.saying("  ")), *questions(8))
    assert "question 000" in model.requests[-1].messages[0].text


async def test_old_messages_leave_the_state_and_stay_known_as_notes() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    writer = ScriptedModel.saying("They went through questions 000 to 005.")
    left = await talk(agent(model, AFTER_FIVE, writer), *questions(8))
    assert texts(left) == ["question 006", "yes", "question 007", "yes"]
    assert "They went through questions" in model.requests[-1].messages[0].text
    assert texts(model.requests[-1].messages[1:]) == ["question 006", "yes", "question 007"]


async def test_the_notes_made_before_are_part_of_the_next_ones() -> None:
    model = ScriptedModel.saying(*["yes"] * 16)
    writer = ScriptedModel.saying("Notes one.", "Notes two.")
    await talk(agent(model, AFTER_FIVE, writer), *questions(16))
    assert "Notes one." in writer.requests[1].messages[1].text


async def test_pinned_messages_stay_as_they_are() -> None:
    model = ScriptedModel.saying(*["yes"] * 9)
    rule = HumanMessage("Always answer in rhyme.", additional_kwargs={"pinned": True})
    left = await talk(agent(model, AFTER_FIVE, ScriptedModel.saying("Notes.")), rule, *questions(8))
    assert left[0].text == "Always answer in rhyme."
    assert "Always answer in rhyme." in texts(model.requests[-1].messages)


async def test_the_latest_request_stays_through_a_long_chain_of_tool_calls() -> None:
    def look(at: str) -> str:
        """Look at something."""
        return f"nothing at {at}"

    model = ScriptedModel.saying(*(calling("look", at=str(number)) for number in range(20)), "done")
    writer = ScriptedModel.saying(*["Notes."] * 9)
    await talk(agent(model, AFTER_FIVE, writer, tools=[look]), "Look everywhere until you find it.")
    assert writer.requests
    for request in model.requests:
        assert "Look everywhere until you find it." in texts(request.messages)


async def test_what_the_writer_says_is_not_streamed() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    graph = agent(model, AFTER_FIVE, ScriptedModel.saying("Secret notes."))
    await talk(graph, *questions(7))
    pieces = [part async for part in graph.astream({"messages": [("user", "more")]}, CONFIG, stream_mode="messages")]
    assert "".join(piece.text for piece, _ in pieces) == "yes"


async def test_compacting_adds_no_step_to_the_graph() -> None:
    plain = create_agent(ScriptedModel.saying(), state_schema=ThreadState)
    assert set(agent(ScriptedModel.saying(), AFTER_FIVE).nodes) == set(plain.nodes)


async def test_no_request_is_larger_than_the_window() -> None:
    model = ScriptedModel.saying(*["yes " * 100] * 40)
    model.profile = {"max_input_tokens": 1000}
    graph = agent(model, SummarizationConfig(), ScriptedModel.saying(*["Notes."] * 40))
    await talk(graph, *(f"{number} " + "please " * (50 * (number % 9)) for number in range(40)))
    assert all(count_tokens(request.messages) <= 950 for request in model.requests)
    assert all(request.messages[-1].text.startswith(f"{number} ") for number, request in enumerate(model.requests))


async def test_the_window_is_taken_to_be_smaller_when_the_model_counts_more() -> None:
    model = ScriptedModel.saying(Answer("yes", usage=Usage(input_tokens=3000)), *["yes"] * 3)
    model.profile = {"max_input_tokens": 4000}
    graph = agent(model, SummarizationConfig(), ScriptedModel.saying(*["Notes."] * 4))
    await talk(graph, "word " * 800, "word " * 800)
    assert count_tokens(model.requests[1].messages) <= 1900


async def test_it_works_without_an_event_loop() -> None:
    model = ScriptedModel.saying(*["yes"] * 8)
    graph = agent(model, AFTER_FIVE, ScriptedModel.saying("Notes."))
    for question in questions(8):
        state = graph.invoke({"messages": [("user", question)]}, CONFIG)
    assert texts(state["messages"]) == ["question 006", "yes", "question 007", "yes"]


async def test_short_conversations_are_left_alone() -> None:
    model = ScriptedModel.saying("yes", "no")
    left = await talk(agent(model, SummarizationConfig()), "one", "two")
    assert texts(left) == ["one", "yes", "two", "no"]
    assert isinstance(left[1], AIMessage)


@pytest.mark.parametrize(
    "mistake",
    [
        {"trigger": {"type": "fraction", "value": 2}},
        {"trigger": [{"type": "messages", "value": 1.5}]},
        {"trigger": []},
        {"keep": {"type": "messages", "value": 300}},
    ],
)
def test_settings_that_make_no_sense_are_refused(mistake: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SummarizationConfig.model_validate(mistake)
