"""Reducers of the thread state."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from deerflow.agent_support.thread_state import (
    ThreadState,
    keep_if_none,
    merge_artifacts,
    merge_messages,
    merge_viewed_images,
)
from deerflow.testing import ScriptedModel

IDS = st.sampled_from("abcdefgh")
MESSAGES = st.builds(lambda id_, text: HumanMessage(text, id=id_), IDS, st.text(max_size=3))
REMOVALS = st.builds(lambda id_: RemoveMessage(id=id_), IDS)
WRITES = st.lists(st.lists(MESSAGES | REMOVALS, max_size=6), max_size=8)


def test_removing_an_unknown_message_is_ignored() -> None:
    message = HumanMessage("hi", id="a")
    assert merge_messages([message], [[RemoveMessage(id="b")]]) == [message]


def test_arguments_are_not_modified() -> None:
    state: list[AnyMessage] = [HumanMessage("hi", id="a")]
    without_id = HumanMessage("who am I")
    merged = merge_messages(state, [[without_id, RemoveMessage(id="a")]])
    assert state == [HumanMessage("hi", id="a")]
    assert without_id.id is None
    assert [message.text for message in merged] == ["who am I"]


@given(WRITES)
def test_messages_are_merged_like_add_messages(writes: list[list[AnyMessage]]) -> None:
    expected: Any = []
    for write in writes:
        expected = add_messages(expected, _without_unknown_removals(expected, write))  # type: ignore[arg-type]
    assert merge_messages([], writes) == expected


@given(WRITES, st.integers(0, 8))
def test_the_grouping_of_writes_does_not_matter(writes: list[list[AnyMessage]], cut: int) -> None:
    assert merge_messages(merge_messages([], writes[:cut]), writes[cut:]) == merge_messages([], writes)


@given(st.lists(st.text(max_size=2) | MESSAGES | st.builds(lambda id_: [RemoveMessage(id=id_)], IDS), max_size=8))
def test_messages_without_an_id_get_a_deterministic_id(writes: list[Any]) -> None:
    at_once = merge_messages([], writes)
    one_by_one: list[AnyMessage] = []
    for write in writes:
        one_by_one = merge_messages(one_by_one, [write])
    assert at_once == one_by_one
    assert all(message.id for message in at_once)


def test_all_messages_can_be_removed() -> None:
    write = [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("new", id="b")]
    assert merge_messages([HumanMessage("old", id="a")], [write]) == [HumanMessage("new", id="b")]


def test_chunks_become_messages() -> None:
    merged = merge_messages([], [[AIMessageChunk("hi", id="a")]])
    assert [type(message) for message in merged] == [AIMessage]


def test_artifacts_keep_their_order_without_duplicates() -> None:
    assert merge_artifacts(["b", "a"], ["c", "a", "c"]) == ["b", "a", "c"]
    assert merge_artifacts(None, None) == []


def test_an_empty_mapping_clears_viewed_images() -> None:
    image: Any = {"mime_type": "image/png", "size": 3}
    assert merge_viewed_images({"a": image}, {"b": image}) == {"a": image, "b": image}
    assert merge_viewed_images({"a": image}, {}) == {}
    assert merge_viewed_images({"a": image}, None) == {"a": image}


def test_todos_are_kept_unless_replaced() -> None:
    todo: Any = {"content": "write", "status": "pending"}
    assert keep_if_none([todo], None) == [todo]
    assert keep_if_none([todo], []) == []


async def test_a_thread_is_restored_from_its_writes() -> None:
    turns = 120
    graph = create_agent(
        ScriptedModel.saying(*(f"answer {n}" for n in range(turns))),
        state_schema=ThreadState,
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    for number in range(turns):
        await graph.ainvoke({"messages": [("user", f"question {number}")]}, config)
    messages = (await graph.aget_state(config)).values["messages"]
    assert [message.text for message in messages[-2:]] == ["question 119", "answer 119"]
    assert len({message.id for message in messages}) == 2 * turns
    assert messages == (await graph.aget_state(config)).values["messages"]


def _without_unknown_removals(state: list[AnyMessage], write: list[AnyMessage]) -> list[AnyMessage]:
    known = {message.id for message in state}
    kept = []
    for message in write:
        if isinstance(message, RemoveMessage) and message.id not in known:
            continue
        known.add(message.id)
        kept.append(message)
    return kept
