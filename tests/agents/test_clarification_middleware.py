"""Clarification questions and their answers."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.clarification_middleware import ClarificationMiddleware, read_options
from deerflow.agents.middlewares.dangling_tool_call_middleware import DanglingToolCallMiddleware, is_complete
from deerflow.agents.middlewares.tool_error_handling_middleware import ToolErrorHandlingMiddleware
from deerflow.testing import Answer, ScriptedModel, ToolRequest, calling, in_parallel
from deerflow.tools.builtins import ask_clarification_tool

QUESTION = calling(
    "ask_clarification",
    question="Which colour?",
    clarification_type="approach_choice",
    context="The page has two themes.",
    options=["dark", "light"],
)


@tool
async def paint(colour: str) -> str:
    """Paint it."""
    return f"painted {colour}"


def create_test_agent(model: ScriptedModel, *, is_disabled: bool = False) -> Any:
    chain = [DanglingToolCallMiddleware(), ToolErrorHandlingMiddleware(), ClarificationMiddleware(is_disabled)]
    tools = [paint, ask_clarification_tool]
    return create_agent(model, tools, middleware=chain, state_schema=ThreadState, checkpointer=InMemorySaver())


async def ask(agent: Any, message: HumanMessage | None = None) -> list[Any]:
    config = {"configurable": {"thread_id": "t"}}
    return (await agent.ainvoke({"messages": [message or HumanMessage("paint it")]}, config))["messages"]


async def test_a_question_ends_the_run_and_the_answer_starts_the_next() -> None:
    model = ScriptedModel.saying(QUESTION, calling("paint", colour="dark"), "Painted it dark.")
    agent = create_test_agent(model)

    messages = await ask(agent)

    question = messages[-1]
    assert len(model.requests) == 1
    assert question.text == "The page has two themes.\n\nWhich colour?\n\n1. dark\n2. light"
    assert question.artifact == {
        "human_input": {
            "version": 1,
            "kind": "human_input_request",
            "source": "ask_clarification",
            "request_id": "clarification-call_1_0",
            "tool_call_id": "call_1_0",
            "clarification_type": "approach_choice",
            "question": "Which colour?",
            "context": "The page has two themes.",
            "input_mode": "choice_with_other",
            "options": [
                {"id": "option-1", "label": "dark", "value": "dark"},
                {"id": "option-2", "label": "light", "value": "light"},
            ],
        }
    }

    chosen = {"human_input_response": {"request_id": "clarification-call_1_0", "value": "dark"}}
    messages = await ask(agent, HumanMessage("dark", additional_kwargs=chosen))

    assert messages[-1].text == "Painted it dark."
    assert [message.type for message in model.requests[1].messages] == ["human", "ai", "tool", "human"]
    assert is_complete(messages)


async def test_other_calls_of_a_reply_with_a_question_are_not_executed() -> None:
    calls = in_parallel(calling("paint", colour="red"), QUESTION, QUESTION)
    model = ScriptedModel.saying(calls, "Thank you.")
    agent = create_test_agent(model)

    messages = await ask(agent)

    assert [message.type for message in messages] == ["human", "ai", "tool"]
    assert [call["name"] for call in messages[1].tool_calls] == ["ask_clarification"]
    assert is_complete(messages)
    assert (await ask(agent, HumanMessage("dark")))[-1].text == "Thank you."


async def test_several_questions_are_asked_without_duplicates() -> None:
    when = calling("ask_clarification", question="By when?", clarification_type="missing_info")
    empty = calling("ask_clarification", clarification_type="suggestion", question=" ")
    model = ScriptedModel.saying(in_parallel(QUESTION, empty, when, QUESTION), "Thank you.")
    agent = create_test_agent(model)

    messages = await ask(agent)

    questions = [message.artifact["human_input"]["question"] for message in messages if message.type == "tool"]
    assert questions == ["Which colour?", "By when?"]
    assert len(model.requests) == 1 and is_complete(messages)
    assert (await ask(agent, HumanMessage("dark, tomorrow")))[-1].text == "Thank you."


async def test_a_call_without_a_question_returns_an_error() -> None:
    empty = calling("ask_clarification", clarification_type="suggestion", question=" ")
    model = ScriptedModel.saying(empty, QUESTION)

    messages = await ask(create_test_agent(model))

    assert model.requests[1].messages[-1].status == "error"
    assert "`question` is missing" in model.requests[1].messages[-1].text
    assert messages[-1].artifact["human_input"]["question"] == "Which colour?"


async def test_a_malformed_call_returns_an_error() -> None:
    broken = Answer(calls=(ToolRequest("ask_clarification", '{"question": }'),))
    messages = await ask(create_test_agent(ScriptedModel.saying(broken, QUESTION)))
    assert messages[-1].artifact["human_input"]["question"] == "Which colour?"


@pytest.mark.parametrize("is_disabled", [False, True])
async def test_a_question_cut_off_by_the_length_limit_returns_one_error(is_disabled: bool) -> None:
    cut = Answer(calls=QUESTION.calls, finish_reason="length")
    model = ScriptedModel.saying(cut, "I see.")
    messages = await ask(create_test_agent(model, is_disabled=is_disabled))
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert "reached its length limit" in messages[2].text


@pytest.mark.parametrize("is_disabled", [False, True])
async def test_a_question_without_an_id_gets_one(is_disabled: bool) -> None:
    without_id = Answer(calls=(ToolRequest(QUESTION.calls[0].name, QUESTION.calls[0].arguments, id=""),))

    class ModelWithoutIds(ScriptedModel):
        """Model whose calls have no ids, as with some local servers."""

        def _answer(self, said: Any) -> Answer:
            return said if isinstance(said, Answer) else super()._answer(said)

    messages = await ask(create_test_agent(ModelWithoutIds.saying(without_id, "I see."), is_disabled=is_disabled))
    assert is_complete(messages)
    assert ("human_input" in (messages[2].artifact or {})) is not is_disabled


async def test_the_model_continues_if_clarification_is_disabled() -> None:
    model = ScriptedModel.saying(in_parallel(QUESTION, calling("paint", colour="dark")), "I took dark.")

    messages = await ask(create_test_agent(model, is_disabled=True))

    assert messages[-1].text == "I took dark."
    results = {message.name: message.text for message in messages if isinstance(message, ToolMessage)}
    assert results["ask_clarification"].startswith("Nobody can answer now. Go on with the most sensible assumption")
    assert results["paint"] == "painted dark"


async def test_a_question_without_options_is_free_text_and_an_unknown_type_becomes_missing_info() -> None:
    question_call = calling("ask_clarification", question="Who?", clarification_type="curiosity")
    payload = (await ask(create_test_agent(ScriptedModel.saying(question_call))))[-1].artifact["human_input"]
    assert (payload["input_mode"], payload["options"]) == ("free_text", [])
    assert payload["clarification_type"] == "missing_info"


def test_synchronous_calls_ask_too() -> None:
    chain = [ClarificationMiddleware()]
    agent = create_agent(ScriptedModel.saying(QUESTION), [ask_clarification_tool], middleware=chain)
    assert "human_input" in agent.invoke({"messages": [HumanMessage("hi")]})["messages"][-1].artifact


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (None, ()),
        (["a", "b", "a", "", 3], ("a", "b", "3")),
        ('["a", "b"]', ("a", "b")),
        ("a\nb", ("a", "b")),
        ([{"label": "A", "value": "a"}, {"value": "b"}, {}], ("A", "b")),
        ({"a": 1}, ()),
        (7, ()),
    ],
)
def test_options_are_parsed_leniently(given: object, options: tuple[str, ...]) -> None:
    assert read_options(given) == options
