"""The list of steps of an agent in plan mode."""

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.summarization_middleware import SummarizationMiddleware
from deerflow.agents.middlewares.todo_middleware import TodoMiddleware
from deerflow.config.sections.agents import SummarizationConfig
from deerflow.testing import Answer, ScriptedModel, calling, in_parallel

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def todos(*statuses: str) -> Answer:
    return calling("write_todos", todos=[{"content": f"step {n}", "status": s} for n, s in enumerate(statuses)])


def agent(model: ScriptedModel, *more: Any) -> Any:
    return create_agent(
        model,
        system_prompt="Be kind.",
        middleware=[TodoMiddleware(), *more],
        state_schema=ThreadState,
        checkpointer=InMemorySaver(),
    )


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages]


async def ask(graph: Any, text: str = "go") -> dict[str, Any]:
    state: dict[str, Any] = await graph.ainvoke({"messages": [("user", text)]}, CONFIG)
    return state


async def test_a_model_that_never_finishes_its_list_is_reminded_twice_and_then_left_alone() -> None:
    model = ScriptedModel.saying(todos("completed", "pending"), "done", "really done", "leave me", "next")
    state = await ask(agent(model))
    assert len(model.requests) == 4
    assert [message.text for message in state["messages"] if message.type == "ai"][1:] == [
        "done",
        "really done",
        "leave me",
    ]
    assert "[ ] step 1" in model.requests[2].messages[-1].text
    assert "step 0" not in model.requests[2].messages[-1].text
    assert model.requests[2].messages[-1].additional_kwargs["hide_from_ui"]


async def test_what_the_model_was_told_stays_where_it_was() -> None:
    model = ScriptedModel.saying(todos("pending"), "done", todos("completed"), "finished", "next")
    graph = agent(model)
    await ask(graph)
    await ask(graph, "and now?")
    earlier, later = texts(model.requests[3].messages), texts(model.requests[4].messages)
    assert later[: len(earlier)] == earlier


async def test_a_reminded_model_can_go_on_with_tools() -> None:
    model = ScriptedModel.saying(todos("in_progress"), "done", todos("completed"), "finished")
    state = await ask(agent(model))
    assert state["messages"][-1].text == "finished"
    assert state["todos"] == [{"content": "step 0", "status": "completed"}]


async def test_two_lists_at_once_leave_the_later_one() -> None:
    model = ScriptedModel.saying(in_parallel(todos("pending"), todos("completed", "completed")), "done")
    state = await ask(agent(model))
    assert len(state["todos"]) == 2


async def test_a_list_that_left_the_view_is_shown_again() -> None:
    settings = SummarizationConfig.model_validate(
        {"trigger": {"type": "messages", "value": 14}, "keep": {"type": "messages", "value": 2}}
    )
    notes = SummarizationMiddleware(settings, ScriptedModel.saying(*["Notes."] * 9))
    model = ScriptedModel.saying(todos("pending"), *["hm"] * 30)
    graph = agent(model, notes)
    for number in range(8):
        await ask(graph, f"question {number}")
    shown = [request for request in model.requests if "can no longer see" in request.messages[-1].text]
    assert shown
    assert "[ ] step 0" in shown[0].messages[-1].text


async def test_an_agent_without_a_list_is_not_reminded_of_one() -> None:
    model = ScriptedModel.saying("hello")
    await ask(agent(model))
    assert texts(model.requests[0].messages)[1:] == ["go"]
    assert texts(model.requests[0].messages)[0].startswith("Be kind.\n\n<todo_list>")
    assert model.requests[0].tool_names == ["write_todos"]


def test_the_list_adds_no_step_to_the_graph() -> None:
    assert "TodoMiddleware.after_model" not in agent(ScriptedModel.saying()).nodes


def test_it_works_without_an_event_loop() -> None:
    model = ScriptedModel.saying(todos("pending"), "done", todos("completed"), "finished")
    state = agent(model).invoke({"messages": [("user", "go")]}, CONFIG)
    assert state["messages"][-1].text == "finished"
