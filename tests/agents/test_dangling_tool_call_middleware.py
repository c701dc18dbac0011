"""Every tool call has exactly one result before the model sees it."""

from collections.abc import Sequence
from itertools import pairwise

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


def asking(*ids: str | None, name: str = "add") -> AIMessage:
    return AIMessage("", id="m", tool_calls=[{"name": name, "args": {}, "id": id_} for id_ in ids])


def result(id_: str, text: str = "done") -> ToolMessage:
    return ToolMessage(text, tool_call_id=id_)


def agent_with(model: ScriptedModel):
    return create_agent(
        model,
        [add],
        middleware=[DanglingToolCallMiddleware()],
        state_schema=ThreadState,
        checkpointer=InMemorySaver(),
    )


def test_a_call_without_a_result_is_answered_right_after_it() -> None:
    settled = complete_messages([HumanMessage("go"), asking("a", "b"), result("b"), HumanMessage("and now?")])

    assert [message.type for message in settled] == ["human", "ai", "tool", "tool", "human"]
    assert [message.tool_call_id for message in settled if isinstance(message, ToolMessage)] == ["a", "b"]
    assert settled[2].status == "error"
    assert "interrupted before add gave a result" in settled[2].text


def test_a_result_that_stands_too_late_is_moved_to_its_call() -> None:
    late = result("a", "seven")
    assert complete_messages([asking("a"), HumanMessage("?"), late]) == [asking("a"), late, HumanMessage("?")]


def test_a_result_without_a_call_and_a_second_result_are_dropped() -> None:
    settled = complete_messages([result("x"), asking("a"), result("a", "first"), result("a", "second"), result("y")])
    assert [message.text for message in settled] == ["", "first"]


def test_an_id_used_again_later_belongs_to_the_later_call() -> None:
    messages = [asking("a"), result("a", "one"), asking("a"), result("a", "two")]
    assert is_complete(messages)
    assert complete_messages(messages) == messages
    assert [message.text for message in complete_messages([asking("a"), asking("a"), result("a", "two")])][-1] == "two"


def test_missing_ids_and_names_are_given_the_same_way_each_time() -> None:
    broken = AIMessage(
        "", id="m", tool_calls=[{"name": "", "args": {}, "id": None}, {"name": "add", "args": {}, "id": ""}]
    )
    messages = [broken, result("", "three")]

    settled = complete_messages(messages)

    assert settled == complete_messages(messages)
    assert [(call["name"], call["id"]) for call in settled[0].tool_calls] == [("unknown_tool", "m_0"), ("add", "m_1")]
    assert [message.tool_call_id for message in settled[1:]] == ["m_0", "m_1"]
    assert settled[1].text == "three"


def test_two_calls_with_one_id_are_told_apart() -> None:
    settled = complete_messages([asking("a", "a"), result("a", "one"), result("a", "two")])
    assert [call["id"] for call in settled[0].tool_calls] == ["a", "a_1"]
    assert [(message.tool_call_id, message.text) for message in settled[1:]] == [("a", "one"), ("a_1", "two")]


def test_what_providers_keep_of_a_broken_call_goes_with_it() -> None:
    content = [{"type": "text", "text": "hm"}, {"type": "tool_use", "id": "a", "name": "add", "input": "{"}]
    invalid = {"name": "add", "args": "{", "id": "a", "error": None, "type": "invalid_tool_call"}
    broken = AIMessage(content, invalid_tool_calls=[invalid], additional_kwargs={"tool_calls": [{"id": "a"}]})

    repaired = complete_messages([broken])[0]

    assert repaired.content == [{"type": "text", "text": "hm"}]
    assert repaired.additional_kwargs == {}
    assert [(call["id"], call["args"]) for call in repaired.tool_calls] == [("a", {})]


async def test_a_thread_left_in_the_middle_of_a_call_takes_the_next_message() -> None:
    model = ScriptedModel.saying("Here I am.")
    agent = agent_with(model)
    config = {"configurable": {"thread_id": "t"}}
    await agent.aupdate_state(config, {"messages": [HumanMessage("go"), asking("a")]}, as_node="model")

    answer = await agent.ainvoke({"messages": [HumanMessage("still there?")]}, config)

    assert answer["messages"][-1].text == "Here I am."
    assert [message.type for message in model.requests[0].messages] == ["human", "ai", "tool", "human"]
    # The thread itself is left as it was.
    assert [message.type for message in answer["messages"]] == ["human", "ai", "human", "ai"]


async def test_malformed_arguments_are_answered_by_what_is_wrong_and_the_model_tries_again() -> None:
    broken = Answer(calls=(ToolRequest("add", '{"a": 1, "b": }'),))
    model = ScriptedModel.saying(broken, calling("add", a=1, b=2), "Three.")

    answer = await agent_with(model).ainvoke({"messages": [HumanMessage("1+2?")]}, {"configurable": {"thread_id": "t"}})

    explained = model.requests[1].messages[-1]
    assert explained.status == "error"
    assert "add was not called: its arguments are not valid JSON: Expecting value at character 14" in explained.text
    assert answer["messages"][-1].text == "Three."
    assert all(not message.invalid_tool_calls for message in answer["messages"] if isinstance(message, AIMessage))
    assert is_complete(answer["messages"])


async def test_a_sound_call_beside_a_malformed_one_is_carried_out() -> None:
    both = Answer(calls=(ToolRequest("add", '{"a": 1, "b": 2}'), ToolRequest("add", "[1, 2]")))
    model = ScriptedModel.saying(both, "Done.")

    await agent_with(model).ainvoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})

    texts = {message.tool_call_id: message.text for message in model.requests[1].messages[-2:]}
    assert texts["call_1_0"] == "3"
    assert texts["call_1_1"].startswith("Error: add was not called: its arguments")


async def test_a_call_cut_off_by_the_length_limit_is_not_carried_out_but_named() -> None:
    cut = Answer(calls=(ToolRequest("add", '{"a": 1, "b": 2'),), finish_reason="length")
    model = ScriptedModel.saying(cut, "I will be brief.")

    await agent_with(model).ainvoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})

    assert len(model.requests[1].messages) == 3
    assert "reached its length limit before the arguments were complete" in model.requests[1].messages[-1].text


def test_the_sync_face_answers_malformed_calls_too() -> None:
    model = ScriptedModel.saying(Answer(calls=(ToolRequest("add", "{"),)), "Sorry.")
    answer = agent_with(model).invoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})
    assert [message.type for message in answer["messages"]] == ["human", "ai", "tool", "ai"]


def test_a_request_with_nothing_wrong_is_handed_on_as_it_is() -> None:
    messages = [HumanMessage("go"), asking("a", "b"), result("b"), result("a"), AIMessage("done")] * 1000
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
def test_any_mixture_of_messages_becomes_one_a_provider_takes(messages: list[AnyMessage]) -> None:
    settled = complete_messages(messages)

    assert is_complete(settled)
    assert each_call_is_answered_in_its_place(settled)
    assert complete_messages(settled) == settled
    assert [message for message in settled if message.type == "human"] == [
        message for message in messages if message.type == "human"
    ]
    assert len([message for message in settled if message.type == "ai"]) == sum(m.type == "ai" for m in messages)
    if is_complete(messages):
        assert settled == messages


def each_call_is_answered_in_its_place(messages: Sequence[AnyMessage]) -> bool:
    """The rule as a provider checks it, said in another way than in the middleware."""
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
