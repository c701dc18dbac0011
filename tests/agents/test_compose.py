"""Middlewares composed into one behave like the chain."""

import asyncio
import operator
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Annotated, Any, NotRequired

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, TracePolicy
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.types import Command

from deerflow.agents.chain import ChainInputs, build_chain
from deerflow.agents.factory import ComposedModelCalls, ComposedToolCalls, compose, create_deerflow_agent
from deerflow.agents.features import RuntimeFeatures
from deerflow.testing import ScriptedModel, calling

AnyMiddleware = AgentMiddleware[Any, Any, Any]
QUESTION = {"messages": [HumanMessage("hi")]}


class NotesState(AgentState[Any]):
    """State with fields that the middlewares update."""

    notes: NotRequired[Annotated[str, operator.add]]
    counted: NotRequired[int]


@tool
def ring() -> str:
    """Ring the bell."""
    return "rung"


class NamedMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware with a configurable name."""

    def __init__(self, label: str, log: list[str]) -> None:
        self.label = label
        self.log = log

    @property
    def name(self) -> str:
        return self.label


class LoggingMiddleware(NamedMiddleware):
    """Logs model calls and tool calls."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.label} asks")
        reply = handler(request)
        self.log.append(f"{self.label} heard")
        return reply

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.label} asks")
        reply = await handler(request)
        self.log.append(f"{self.label} heard")
        return reply

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.label} acts")
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.label} acts")
        return await handler(request)


class NodeMiddleware(LoggingMiddleware):
    """Adds a node to the graph."""

    def before_model(self, state: Any, runtime: Any) -> None:
        self.log.append(f"{self.label} steps")


class UpdatingMiddleware(NamedMiddleware):
    """Adds a state update to the response."""

    state_schema = NotesState
    update: Any = None

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return ExtendedModelResponse(await handler(request), Command(update=self.update))


class RepeatingMiddleware(NamedMiddleware):
    """Calls the model twice and returns the second response."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await handler(request)
        return await handler(request)


class AnsweringMiddleware(NamedMiddleware):
    """Returns a plain message instead of calling the model."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return AIMessage("It is I.")


class ToolMiddleware(LoggingMiddleware):
    """Adds a tool."""

    def __init__(self, label: str, log: list[str]) -> None:
        super().__init__(label, log)
        self.tools = [ring]


class CountingExecutor(ThreadPoolExecutor):
    """Counts submitted calls."""

    count = 0

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        self.count += 1
        return super().submit(*args, **kwargs)


def create_updating_middleware(label: str, update: Any) -> UpdatingMiddleware:
    middleware = UpdatingMiddleware(label, [])
    middleware.update = update
    return middleware


def create_tool_model() -> ScriptedModel:
    return ScriptedModel.saying(calling("ring"), "Done.")


@pytest.mark.parametrize("is_async", [True, False])
async def test_composition_keeps_the_order_also_around_a_middleware_with_a_node(is_async: bool) -> None:
    logs: list[list[str]] = []
    for prepare in (list, compose):
        log: list[str] = []
        chain = [
            ToolMiddleware("a", log),
            LoggingMiddleware("b", log),
            NodeMiddleware("c", log),
            LoggingMiddleware("d", log),
            LoggingMiddleware("e", log),
        ]
        agent: Any = create_agent(create_tool_model(), middleware=prepare(chain))
        state = await agent.ainvoke(QUESTION) if is_async else await asyncio.to_thread(agent.invoke, QUESTION)
        assert state["messages"][-1].text == "Done."
        logs.append(log)
    assert logs[0] == logs[1]
    assert logs[0][:6] == ["c steps", "a asks", "b asks", "c asks", "d asks", "e asks"]
    assert "e acts" in logs[0]


async def test_state_updates_are_applied_innermost_first() -> None:
    chain = [
        create_updating_middleware("a", {"notes": "outermost"}),
        create_updating_middleware("b", [("notes", "then "), ("counted", 2)]),
        create_updating_middleware("c", {"notes": "first ", "messages": [HumanMessage("kept")]}),
    ]
    for prepare in (list, compose):
        agent: Any = create_agent(ScriptedModel.saying("Hello."), middleware=prepare(chain))
        state = await agent.ainvoke(QUESTION)
        assert (state["notes"], state["counted"]) == ("first then outermost", 2)
        assert [message.text for message in state["messages"]] == ["hi", "Hello.", "kept"]


async def test_a_repeated_model_call_keeps_only_the_last_update() -> None:
    chain = [RepeatingMiddleware("a", []), create_updating_middleware("b", {"messages": [HumanMessage("noted")]})]
    agent: Any = create_agent(ScriptedModel.saying("One.", "Two."), middleware=compose(chain))
    state = await agent.ainvoke(QUESTION)
    assert [message.text for message in state["messages"]] == ["hi", "Two.", "noted"]


async def test_a_plain_message_as_response_reaches_outer_middlewares() -> None:
    log: list[str] = []
    agent: Any = create_agent(
        ScriptedModel.saying(), middleware=compose([LoggingMiddleware("a", log), AnsweringMiddleware("b", log)])
    )
    assert (await agent.ainvoke(QUESTION))["messages"][-1].text == "It is I."
    assert log == ["a asks", "a heard"]


async def test_a_command_with_goto_is_refused() -> None:
    chain = [LoggingMiddleware("a", []), create_updating_middleware("b", {"notes": "x"}), GotoMiddleware("c", [])]
    agent: Any = create_agent(ScriptedModel.saying("Hello."), middleware=compose(chain))
    with pytest.raises(NotImplementedError, match="goto"):
        await agent.ainvoke(QUESTION)


class GotoMiddleware(NamedMiddleware):
    """Returns a command with goto."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return ExtendedModelResponse(await handler(request), Command(goto="tools"))


async def test_a_middleware_without_synchronous_hook_is_reported() -> None:
    agent: Any = create_agent(
        ScriptedModel.saying("Hello."), middleware=compose([LoggingMiddleware("a", []), AnsweringMiddleware("b", [])])
    )
    with pytest.raises(NotImplementedError, match="wrap_model_call"):
        await asyncio.to_thread(agent.invoke, QUESTION)


def test_duplicate_names_are_refused() -> None:
    with pytest.raises(AssertionError, match="duplicate"):
        create_agent(
            ScriptedModel.saying("Hello."), middleware=compose([LoggingMiddleware("a", []), LoggingMiddleware("a", [])])
        )


def test_middlewares_with_nodes_or_trace_policies_are_not_composed() -> None:
    traced = LoggingMiddleware("b", [])
    traced.trace_policy = TracePolicy()
    chain: Sequence[AnyMiddleware] = [
        LoggingMiddleware("a", []),
        traced,
        NodeMiddleware("c", []),
        LoggingMiddleware("d", []),
    ]
    assert compose(chain) == list(chain)


def test_middlewares_without_tool_hooks_add_no_tools_node() -> None:
    composed = compose([RepeatingMiddleware("a", []), AnsweringMiddleware("b", [])])
    assert isinstance(composed[0], ComposedModelCalls) and not any(
        isinstance(each, ComposedToolCalls) for each in composed
    )
    assert "tools" not in create_agent(ScriptedModel.saying(), middleware=composed).get_graph().nodes


async def test_a_turn_through_the_whole_chain_uses_few_thread_switches() -> None:
    threads = CountingExecutor(4)
    asyncio.get_running_loop().set_default_executor(threads)
    agent = create_deerflow_agent(create_tool_model(), [ring], features=RuntimeFeatures(sandbox=False))
    assert len(build_chain(ChainInputs(RuntimeFeatures(sandbox=False)))) > 15
    state = await agent.ainvoke(QUESTION)
    assert state["messages"][-1].text == "Done."
    # Two per model call and tool call; without composition one call needs more than twice as many.
    assert threads.count <= 10
