"""Every tool call in a model request has exactly one result."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.dangling_tool_call_middleware import (
    DanglingToolCallMiddleware,
    complete_messages,
    is_complete,
    settle_request,
)
from deerflow.testing import Answer, ScriptedModel, ToolRequest, calling


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def calls_message(*ids: str | None, name: str = "add") -> AIMessage:
    return AIMessage("", id="m", tool_calls=[{"name": name, "args": {}, "id": id_} for id_ in ids])


def result(id_: str, text: str = "done") -> ToolMessage:
    return ToolMessage(text, tool_call_id=id_)


def create_test_agent(model: ScriptedModel) -> Any:
    return create_agent(
        model,
        [add],
        middleware=[DanglingToolCallMiddleware()],
        state_schema=ThreadState,
        checkpointer=InMemorySaver(),
    )


def test_a_call_without_a_result_gets_an_error_result() -> None:
    completed = complete_messages([HumanMessage("go"), calls_message("a", "b"), result("b"), HumanMessage("and now?")])

    assert [message.type for message in completed] == ["human", "ai", "tool", "tool", "human"]
    assert [message.tool_call_id for message in completed if isinstance(message, ToolMessage)] == ["a", "b"]
    assert completed[2].status == "error"
    assert "interrupted before add gave a result" in completed[2].text


def test_a_late_result_is_moved_to_its_call() -> None:
    late = result("a", "seven")
    assert complete_messages([calls_message("a"), HumanMessage("?"), late]) == [
        calls_message("a"),
        late,
        HumanMessage("?"),
    ]


def test_orphaned_and_duplicate_results_are_dropped() -> None:
    completed = complete_messages(
        [result("x"), calls_message("a"), result("a", "first"), result("a", "second"), result("y")]
    )
    assert [message.text for message in completed] == ["", "first"]


def test_a_reused_id_belongs_to_the_later_call() -> None:
    messages = [calls_message("a"), result("a", "one"), calls_message("a"), result("a", "two")]
    assert is_complete(messages)
    assert complete_messages(messages) == messages
    assert [
        message.text for message in complete_messages([calls_message("a"), calls_message("a"), result("a", "two")])
    ][-1] == "two"


def test_missing_ids_and_names_are_generated_deterministically() -> None:
    broken = AIMessage(
        "", id="m", tool_calls=[{"name": "", "args": {}, "id": None}, {"name": "add", "args": {}, "id": ""}]
    )
    messages = [broken, result("", "three")]

    completed = complete_messages(messages)

    assert completed == complete_messages(messages)
    assert [(call["name"], call["id"]) for call in completed[0].tool_calls] == [("unknown_tool", "m_0"), ("add", "m_1")]
    assert [message.tool_call_id for message in completed[1:]] == ["m_0", "m_1"]
    assert completed[1].text == "three"


def test_duplicate_ids_of_one_reply_are_made_unique() -> None:
    completed = complete_messages([calls_message("a", "a"), result("a", "one"), result("a", "two")])
    assert [call["id"] for call in completed[0].tool_calls] == ["a", "a_1"]
    assert [(message.tool_call_id, message.text) for message in completed[1:]] == [("a", "one"), ("a_1", "two")]


def test_provider_specific_copies_of_a_malformed_call_are_removed() -> None:
    content = [{"type": "text", "text": "hm"}, {"type": "tool_use", "id": "a", "name": "add", "input": "{"}]
    invalid = {"name": "add", "args": "{", "id": "a", "error": None, "type": "invalid_tool_call"}
    broken = AIMessage(content, invalid_tool_calls=[invalid], additional_kwargs={"tool_calls": [{"id": "a"}]})

    repaired = complete_messages([broken])[0]

    assert repaired.content == [{"type": "text", "text": "hm"}]
    assert repaired.additional_kwargs == {}
    assert [(call["id"], call["args"]) for call in repaired.tool_calls] == [("a", {})]


async def test_a_thread_interrupted_during_a_call_accepts_the_next_message() -> None:
    model = ScriptedModel.saying("Here I am.")
    agent = create_test_agent(model)
    config = {"configurable": {"thread_id": "t"}}
    await agent.aupdate_state(config, {"messages": [HumanMessage("go"), calls_message("a")]}, as_node="model")

    answer = await agent.ainvoke({"messages": [HumanMessage("still there?")]}, config)

    assert answer["messages"][-1].text == "Here I am."
    assert [message.type for message in model.requests[0].messages] == ["human", "ai", "tool", "human"]
    # The stored messages are unchanged.
    assert [message.type for message in answer["messages"]] == ["human", "ai", "human", "ai"]


async def test_malformed_arguments_return_the_parse_error_and_the_model_retries() -> None:
    broken = Answer(calls=(ToolRequest("add", '{"a": 1, "b": }'),))
    model = ScriptedModel.saying(broken, calling("add", a=1, b=2), "Three.")

    answer = await create_test_agent(model).ainvoke(
        {"messages": [HumanMessage("1+2?")]}, {"configurable": {"thread_id": "t"}}
    )

    error_result = model.requests[1].messages[-1]
    assert error_result.status == "error"
    assert "add was not called: its arguments are not valid JSON: Expecting value at character 14" in error_result.text
    assert answer["messages"][-1].text == "Three."
    assert all(not message.invalid_tool_calls for message in answer["messages"] if isinstance(message, AIMessage))
    assert is_complete(answer["messages"])


async def test_a_valid_call_next_to_a_malformed_one_is_executed() -> None:
    both = Answer(calls=(ToolRequest("add", '{"a": 1, "b": 2}'), ToolRequest("add", "[1, 2]")))
    model = ScriptedModel.saying(both, "Done.")

    await create_test_agent(model).ainvoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})

    texts = {message.tool_call_id: message.text for message in model.requests[1].messages[-2:]}
    assert texts["call_1_0"] == "3"
    assert texts["call_1_1"].startswith("Error: add was not called: its arguments")


async def test_a_call_cut_off_by_the_length_limit_returns_an_error() -> None:
    cut = Answer(calls=(ToolRequest("add", '{"a": 1, "b": 2'),), finish_reason="length")
    model = ScriptedModel.saying(cut, "I will be brief.")

    await create_test_agent(model).ainvoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})

    assert len(model.requests[1].messages) == 3
    assert "reached its length limit before the arguments were complete" in model.requests[1].messages[-1].text


def test_synchronous_calls_report_malformed_arguments_too() -> None:
    model = ScriptedModel.saying(Answer(calls=(ToolRequest("add", "{"),)), "Sorry.")
    answer = create_test_agent(model).invoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})
    assert [message.type for message in answer["messages"]] == ["human", "ai", "tool", "ai"]


def test_a_valid_request_is_passed_unchanged() -> None:
    messages = [HumanMessage("go"), calls_message("a", "b"), result("b"), result("a"), AIMessage("done")] * 1000
    request = ModelRequest(model=ScriptedModel(), messages=messages)
    assert settle_request(request) is request


call_ids = st.sampled_from(["a", "b", "c", "", None])
names = st.sampled_from(["add", ""])
tool_calls = st.fixed_dictionaries({"name": names, "args": st.just({"a": 1}), "id": call_ids})
invalid_calls = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["add", "", None]),
        "args": st.sampled_from(["{", "[]", "", None]),
        "id": call_ids,
        "error": st.none(),
        "type": st.just("invalid_tool_call"),
    }
)
any_message = st.one_of(
    st.builds(HumanMessage, st.just("hello")),
    st.builds(
        lambda calls, invalid: AIMessage("", tool_calls=calls, invalid_tool_calls=invalid),
        st.lists(tool_calls, max_size=3),
        st.lists(invalid_calls, max_size=2),
    ),
    st.builds(lambda id_: result(id_ or ""), call_ids),
)


@settings(deadline=None)
@given(st.lists(any_message, max_size=12))
def test_any_messages_become_a_valid_request(messages: list[AnyMessage]) -> None:
    completed = complete_messages(messages)

    assert is_complete(completed)
    assert has_one_result_per_call(completed)
    assert complete_messages(completed) == completed
    assert [message for message in completed if message.type == "human"] == [
        message for message in messages if message.type == "human"
    ]
    assert len([message for message in completed if message.type == "ai"]) == sum(m.type == "ai" for m in messages)
    if is_complete(messages):
        assert completed == messages


def has_one_result_per_call(messages: Sequence[AnyMessage]) -> bool:
    """Check the rule of providers, independently of the middleware."""
    blocks: list[list[AnyMessage]] = [[]]
    for message in messages:
        if not isinstance(message, ToolMessage):
            blocks.append([])
        blocks[-1].append(message)
    return all(
        sorted(call["id"] for call in getattr(block[0], "tool_calls", ())) == sorted(m.tool_call_id for m in block[1:])
        and not any(before == after for before, after in pairwise(sorted(m.tool_call_id for m in block[1:])))
        and all(call["name"] for call in getattr(block[0], "tool_calls", ()))
        for block in blocks
        if block
    )
