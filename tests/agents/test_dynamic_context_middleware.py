"""The current date in model requests."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.model_calls import DynamicContextMiddleware
from deerflow.testing import ScriptedModel, calling

CONFIG: Any = {"configurable": {"thread_id": "t"}}
FIRST = "<current_date>2026-11-15, Sunday</current_date>"
SECOND = "<current_date>2026-11-16, Monday</current_date>"


class Clock:
    def __init__(self) -> None:
        self.day = 15

    def __call__(self) -> datetime:
        return datetime(2026, 11, self.day, 12, tzinfo=UTC)


def create_test_agent(model: ScriptedModel, clock: Clock, tools: Any = ()) -> Any:
    middleware = DynamicContextMiddleware(clock)
    return create_agent(model, tools, middleware=[middleware], state_schema=ThreadState, checkpointer=InMemorySaver())


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages]


async def test_the_date_is_added_once_and_keeps_its_position() -> None:
    model = ScriptedModel.saying("one", "two", "three")
    graph = create_test_agent(model, Clock())
    for question in ("a", "b", "c"):
        await graph.ainvoke({"messages": [("user", question)]}, CONFIG)
    assert texts(model.requests[2].messages) == ["a", FIRST, "one", "b", "two", "c"]
    assert model.requests[2].messages[1].additional_kwargs == {"hide_from_ui": True}


async def test_after_midnight_the_new_date_is_added_and_the_old_one_kept() -> None:
    model = ScriptedModel.saying("one", "two", "three")
    clock = Clock()
    graph = create_test_agent(model, clock)
    await graph.ainvoke({"messages": [("user", "a")]}, CONFIG)
    clock.day = 16
    await graph.ainvoke({"messages": [("user", "b")]}, CONFIG)
    await graph.ainvoke({"messages": [("user", "c")]}, CONFIG)
    assert texts(model.requests[2].messages) == ["a", FIRST, "one", "b", SECOND, "two", "c"]


async def test_a_date_change_during_a_turn_follows_the_tool_results() -> None:
    clock = Clock()

    def sleep() -> str:
        """Wait for the next day."""
        clock.day = 16
        return "slept"

    model = ScriptedModel.saying(calling("sleep"), calling("sleep"), "done")
    await create_test_agent(model, clock, [sleep]).ainvoke({"messages": [("user", "a")]}, CONFIG)
    assert texts(model.requests[2].messages) == ["a", FIRST, "", "slept", SECOND, "", "slept"]


async def test_user_messages_are_not_changed() -> None:
    graph = create_test_agent(ScriptedModel.saying("one"), Clock())
    state = await graph.ainvoke({"messages": [HumanMessage("a", id="1", additional_kwargs={"files": []})]}, CONFIG)
    assert state["messages"][0] == HumanMessage("a", id="1", additional_kwargs={"files": []})
    assert len(state["messages"]) == 2


def test_synchronous_calls_get_the_date_too() -> None:
    model = ScriptedModel.saying("one")
    create_test_agent(model, Clock()).invoke({"messages": [("user", "a")]}, CONFIG)
    assert texts(model.requests[0].messages) == ["a", FIRST]
