"""Todos of an agent in plan mode."""

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


def write_todos(*statuses: str) -> Answer:
    return calling("write_todos", todos=[{"content": f"step {n}", "status": s} for n, s in enumerate(statuses)])


def create_test_agent(model: ScriptedModel, *more: Any) -> Any:
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


async def test_open_todos_cause_at_most_two_reminders() -> None:
    model = ScriptedModel.saying(write_todos("completed", "pending"), "done", "really done", "leave me", "next")
    state = await ask(create_test_agent(model))
    assert len(model.requests) == 4
    assert [message.text for message in state["messages"] if message.type == "ai"][1:] == [
        "done",
        "really done",
        "leave me",
    ]
    assert "[ ] step 1" in model.requests[2].messages[-1].text
    assert "step 0" not in model.requests[2].messages[-1].text
    assert model.requests[2].messages[-1].additional_kwargs["hide_from_ui"]


async def test_reminders_keep_their_position_in_later_requests() -> None:
    model = ScriptedModel.saying(write_todos("pending"), "done", write_todos("completed"), "finished", "next")
    graph = create_test_agent(model)
    await ask(graph)
    await ask(graph, "and now?")
    earlier, later = texts(model.requests[3].messages), texts(model.requests[4].messages)
    assert later[: len(earlier)] == earlier


async def test_a_reminded_model_can_call_tools() -> None:
    model = ScriptedModel.saying(write_todos("in_progress"), "done", write_todos("completed"), "finished")
    state = await ask(create_test_agent(model))
    assert state["messages"][-1].text == "finished"
    assert state["todos"] == [{"content": "step 0", "status": "completed"}]


async def test_the_last_of_two_parallel_lists_is_kept() -> None:
    model = ScriptedModel.saying(in_parallel(write_todos("pending"), write_todos("completed", "completed")), "done")
    state = await ask(create_test_agent(model))
    assert len(state["todos"]) == 2


async def test_a_compacted_list_is_shown_again() -> None:
    settings = SummarizationConfig.model_validate(
        {"trigger": {"type": "messages", "value": 14}, "keep": {"type": "messages", "value": 2}}
    )
    compaction = SummarizationMiddleware(settings, ScriptedModel.saying(*["Notes."] * 9))
    model = ScriptedModel.saying(write_todos("pending"), *["hm"] * 30)
    graph = create_test_agent(model, compaction)
    for number in range(8):
        await ask(graph, f"question {number}")
    shown = [request for request in model.requests if "can no longer see" in request.messages[-1].text]
    assert shown
    assert "[ ] step 0" in shown[0].messages[-1].text


async def test_an_agent_without_todos_is_not_reminded() -> None:
    model = ScriptedModel.saying("hello")
    await ask(create_test_agent(model))
    assert texts(model.requests[0].messages)[1:] == ["go"]
    assert texts(model.requests[0].messages)[0].startswith("Be kind.\n\n<todo_list>")
    assert model.requests[0].tool_names == ["write_todos"]


def test_the_middleware_adds_no_nodes_to_the_graph() -> None:
    assert "TodoMiddleware.after_model" not in create_test_agent(ScriptedModel.saying()).nodes


def test_synchronous_calls_work_too() -> None:
    model = ScriptedModel.saying(write_todos("pending"), "done", write_todos("completed"), "finished")
    state = create_test_agent(model).invoke({"messages": [("user", "go")]}, CONFIG)
    assert state["messages"][-1].text == "finished"
