"""A chain that is handed over as one middleware does what it did as many."""

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
from deerflow.agents.compose import ComposedModelCalls, ComposedToolCalls, compose
from deerflow.agents.factory import create_deerflow_agent
from deerflow.agents.features import RuntimeFeatures
from deerflow.testing import ScriptedModel, calling

AnyMiddleware = AgentMiddleware[Any, Any, Any]
QUESTION = {"messages": [HumanMessage("hi")]}


class Noted(AgentState[Any]):
    """What the middlewares of these tests leave."""

    notes: NotRequired[Annotated[str, operator.add]]
    counted: NotRequired[int]


@tool
def ring() -> str:
    """Ring the bell."""
    return "rung"


class Named(AgentMiddleware[Any, Any, Any]):
    """A middleware of which there may be several."""

    def __init__(self, called: str, log: list[str]) -> None:
        self.called = called
        self.log = log

    @property
    def name(self) -> str:
        return self.called


class Both(Named):
    """Tells before and after each call, of the model and of tools."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.called} asks")
        reply = handler(request)
        self.log.append(f"{self.called} heard")
        return reply

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.called} asks")
        reply = await handler(request)
        self.log.append(f"{self.called} heard")
        return reply

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.called} acts")
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.called} acts")
        return await handler(request)


class Step(Both):
    """Is also a step of the graph."""

    def before_model(self, state: Any, runtime: Any) -> None:
        self.log.append(f"{self.called} steps")


class Writes(Named):
    """Has something written to the state besides the reply."""

    state_schema = Noted
    update: Any = None

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return ExtendedModelResponse(await handler(request), Command(update=self.update))


class Twice(Named):
    """Asks twice, and keeps the second answer."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await handler(request)
        return await handler(request)


class Answers(Named):
    """Answers in place of the model, in the shortest form."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return AIMessage("It is I.")


class Brings(Both):
    """Brings a tool along."""

    def __init__(self, called: str, log: list[str]) -> None:
        super().__init__(called, log)
        self.tools = [ring]


class CountingThreads(ThreadPoolExecutor):
    """Counts what it is given to do."""

    count = 0

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        self.count += 1
        return super().submit(*args, **kwargs)


def writing(called: str, update: Any) -> Writes:
    made = Writes(called, [])
    made.update = update
    return made


def ringing() -> ScriptedModel:
    return ScriptedModel.saying(calling("ring"), "Done.")


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_order_is_that_of_the_chain_also_around_one_that_is_a_step(is_async: bool) -> None:
    logs: list[list[str]] = []
    for handed in (list, compose):
        log: list[str] = []
        chain = [Brings("a", log), Both("b", log), Step("c", log), Both("d", log), Both("e", log)]
        agent: Any = create_agent(ringing(), middleware=handed(chain))
        said = await agent.ainvoke(QUESTION) if is_async else await asyncio.to_thread(agent.invoke, QUESTION)
        assert said["messages"][-1].text == "Done."
        logs.append(log)
    assert logs[0] == logs[1]
    assert logs[0][:6] == ["c steps", "a asks", "b asks", "c asks", "d asks", "e asks"]
    assert "e acts" in logs[0]


async def test_what_several_want_written_is_written_the_outermost_last() -> None:
    chain = [
        writing("a", {"notes": "outermost"}),
        writing("b", [("notes", "then "), ("counted", 2)]),
        writing("c", {"notes": "first ", "messages": [HumanMessage("kept")]}),
    ]
    for handed in (list, compose):
        agent: Any = create_agent(ScriptedModel.saying("Hello."), middleware=handed(chain))
        state = await agent.ainvoke(QUESTION)
        assert (state["notes"], state["counted"]) == ("first then outermost", 2)
        assert [message.text for message in state["messages"]] == ["hi", "Hello.", "kept"]


async def test_whoever_asks_again_keeps_only_what_came_of_the_last_time() -> None:
    chain = [Twice("a", []), writing("b", {"messages": [HumanMessage("noted")]})]
    agent: Any = create_agent(ScriptedModel.saying("One.", "Two."), middleware=compose(chain))
    state = await agent.ainvoke(QUESTION)
    assert [message.text for message in state["messages"]] == ["hi", "Two.", "noted"]


async def test_a_bare_message_in_place_of_an_answer_reaches_those_further_out() -> None:
    log: list[str] = []
    agent: Any = create_agent(ScriptedModel.saying(), middleware=compose([Both("a", log), Answers("b", log)]))
    assert (await agent.ainvoke(QUESTION))["messages"][-1].text == "It is I."
    assert log == ["a asks", "a heard"]


async def test_a_command_that_is_more_than_writing_is_refused_as_ever() -> None:
    chain = [Both("a", []), writing("b", {"notes": "x"}), Jumps("c", [])]
    agent: Any = create_agent(ScriptedModel.saying("Hello."), middleware=compose(chain))
    with pytest.raises(NotImplementedError, match="goto"):
        await agent.ainvoke(QUESTION)


class Jumps(Named):
    """Wants to go elsewhere."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return ExtendedModelResponse(await handler(request), Command(goto="tools"))


async def test_one_that_has_only_the_other_colour_says_so_as_ever() -> None:
    agent: Any = create_agent(ScriptedModel.saying("Hello."), middleware=compose([Both("a", []), Answers("b", [])]))
    with pytest.raises(NotImplementedError, match="wrap_model_call"):
        await asyncio.to_thread(agent.invoke, QUESTION)


def test_two_of_the_same_name_are_refused_as_ever() -> None:
    with pytest.raises(AssertionError, match="duplicate"):
        create_agent(ScriptedModel.saying("Hello."), middleware=compose([Both("a", []), Both("a", [])]))


def test_those_with_steps_or_wishes_for_their_traces_stay_as_they_are() -> None:
    traced = Both("b", [])
    traced.trace_policy = TracePolicy()
    chain: Sequence[AnyMiddleware] = [Both("a", []), traced, Step("c", []), Both("d", [])]
    assert compose(chain) == list(chain)


def test_what_wraps_no_tools_brings_no_step_for_tools() -> None:
    folded = compose([Twice("a", []), Answers("b", [])])
    assert isinstance(folded[0], ComposedModelCalls) and not any(isinstance(each, ComposedToolCalls) for each in folded)
    assert "tools" not in create_agent(ScriptedModel.saying(), middleware=folded).get_graph().nodes


async def test_a_turn_through_our_whole_chain_goes_to_a_thread_only_a_few_times() -> None:
    threads = CountingThreads(4)
    asyncio.get_running_loop().set_default_executor(threads)
    agent = create_deerflow_agent(ringing(), [ring], features=RuntimeFeatures(sandbox=False))
    assert len(build_chain(ChainInputs(RuntimeFeatures(sandbox=False)))) > 15
    state = await agent.ainvoke(QUESTION)
    assert state["messages"][-1].text == "Done."
    assert (
        threads.count <= 10
    )  # two for each call of the model and of the tool, where more than twice as many were for a single call
