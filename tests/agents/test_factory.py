"""Tests of `create_deerflow_agent`."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agents import Next, Prev, RuntimeFeatures, create_deerflow_agent
from deerflow.agents.chain import CHAIN, ChainInputs, build_chain
from deerflow.agents.middlewares.clarification_middleware import ClarificationMiddleware
from deerflow.agents.middlewares.loop_detection_middleware import LoopDetectionMiddleware
from deerflow.agents.middlewares.todo_middleware import TodoMiddleware
from deerflow.sandbox.middleware import SandboxMiddleware
from deerflow.testing import ScriptedModel, calling

INPUT = {"messages": [{"type": "human", "content": "Hi"}]}
ALL_FEATURES = RuntimeFeatures(
    memory=True, summarization=True, subagent=True, vision=True, auto_title=True, guardrail=True, todo=True
)


def chain_names(features: RuntimeFeatures, **options: bool) -> list[str]:
    return [type(middleware).__name__ for middleware in build_chain(ChainInputs(features), **options)]


def test_an_agent_answers_with_default_arguments() -> None:
    agent = create_deerflow_agent(ScriptedModel.saying("Hello."))
    assert agent.invoke(INPUT)["messages"][-1].text == "Hello."


async def test_a_plain_function_becomes_a_tool() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: One.
            b: The other.
        """
        return a + b

    model = ScriptedModel.saying(calling("add", a=2, b=3), "Five.")
    agent = create_deerflow_agent(model, [add], system_prompt="You add.", checkpointer=InMemorySaver())
    state = await agent.ainvoke(INPUT, {"configurable": {"thread_id": "t"}})
    assert [message.text for message in state["messages"]][1:] == ["", "5", "Five."]
    assert model.requests[0].messages[0].text.startswith("You add.")


async def test_the_subagent_feature_adds_a_tool_that_delegates() -> None:
    def weigh(thing: str) -> str:
        """Weigh a thing.

        Args:
            thing: Its name.
        """
        return f"{thing}: 5 kg"

    order = {"description": "weigh it", "prompt": "How heavy is the box?", "subagent_type": "general-purpose"}
    model = ScriptedModel.saying(
        calling("task", **order), calling("weigh", thing="box"), "The box weighs 5 kg.", "It weighs 5 kg."
    )
    agent = create_deerflow_agent(model, [weigh], features=RuntimeFeatures(subagent=True), checkpointer=InMemorySaver())
    events = []
    async for mode, part in agent.astream(
        INPUT, {"configurable": {"thread_id": "t"}}, stream_mode=["custom", "values"]
    ):
        if mode == "custom":
            events.append(part["type"])
        else:
            state = part
    assert [message.text for message in state["messages"]] == [
        "Hi", "", "Task Succeeded. Result: The box weighs 5 kg.", "It weighs 5 kg."
    ]  # fmt: skip
    assert "task" in model.requests[0].tool_names and "weigh" in model.requests[1].tool_names
    assert not {"task", "ask_clarification"} & set(model.requests[1].tool_names)
    assert model.requests[1].messages[1].text == "How heavy is the box?"
    assert (events[0], events[-1]) == ("task_started", "task_completed")


async def test_an_unknown_kind_of_subagent_is_refused_and_a_task_tool_of_your_own_is_kept() -> None:
    order = {"description": "x", "prompt": "y", "subagent_type": "wizard"}
    features = RuntimeFeatures(subagent=True)
    state = await create_deerflow_agent(
        ScriptedModel.saying(calling("task", **order), "Well."), features=features
    ).ainvoke(INPUT)
    assert state["messages"][-2].status == "error" and "general-purpose" in state["messages"][-2].text

    def task(thing: str) -> str:
        """Do a thing.

        Args:
            thing: Its name.
        """
        return f"{thing} done"

    model = ScriptedModel.saying(calling("task", thing="this"), "Well.")
    state = await create_deerflow_agent(model, [task], features=features).ainvoke(INPUT)
    assert state["messages"][-2].text == "this done"


def test_all_features_can_be_enabled_together() -> None:
    agent = create_deerflow_agent(ScriptedModel.saying("Hello."), features=ALL_FEATURES)
    assert agent.invoke(INPUT)["messages"][-1].text == "Hello."


def test_the_chain_has_the_documented_order() -> None:
    expected = [
        "ThreadData", "Uploads", "Sandbox", "DanglingToolCall", "Guardrail", "ToolErrorHandling",
        "Todo", "Title", "Memory", "ViewImage", "SubagentLimit", "LoopDetection", "Clarification",
    ]  # fmt: skip
    chain = chain_names(ALL_FEATURES)
    assert [name for name in chain if name.removesuffix("Middleware") in expected] == [
        f"{n}Middleware" for n in expected
    ]
    # Compaction is next to the model, so that additions of other middlewares fit as well.
    assert chain[-6:-1] == [
        "ModelRecoveryMiddleware",
        "SummarizationMiddleware",
        "BudgetMiddleware",
        "MeteringMiddleware",
        "BoundaryMiddleware",
    ]
    assert chain[-1] == "ClarificationMiddleware"


def test_every_middleware_of_the_chain_has_a_reason() -> None:
    assert all(len(spec.reason.split()) >= 4 for spec in CHAIN)


def test_the_chain_of_a_subagent_has_no_clarification_todos_or_title() -> None:
    chain = chain_names(ALL_FEATURES, for_subagent=True)
    assert "ClarificationMiddleware" not in chain and "TodoMiddleware" not in chain and "TitleMiddleware" not in chain
    assert "DanglingToolCallMiddleware" in chain and "ToolErrorHandlingMiddleware" in chain


def test_a_feature_can_be_disabled_or_replaced() -> None:
    class OwnMiddleware(AgentMiddleware): ...

    assert "LoopDetectionMiddleware" not in chain_names(RuntimeFeatures(loop_detection=False))
    assert "OwnMiddleware" in chain_names(RuntimeFeatures(loop_detection=OwnMiddleware()))
    chain = chain_names(RuntimeFeatures(sandbox=OwnMiddleware()))
    assert (
        chain.count("OwnMiddleware") == 1 and "ThreadDataMiddleware" not in chain and "SandboxMiddleware" not in chain
    )


def test_custom_middlewares_are_placed_and_called() -> None:
    calls: list[str] = []

    @Next(SandboxMiddleware)
    class Outer(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            calls.append("outer")
            return handler(request)

    @Prev(ClarificationMiddleware)
    class Inner(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            calls.append("inner")
            return handler(request)

    agent = create_deerflow_agent(ScriptedModel.saying("Hello."), extra_middleware=[Inner(), Outer()])
    agent.invoke(INPUT)
    assert calls == ["outer", "inner"]


def test_two_extras_with_the_same_position_are_reported() -> None:
    @Next(LoopDetectionMiddleware)
    class One(AgentMiddleware): ...

    @Next(LoopDetectionMiddleware)
    class Two(AgentMiddleware): ...

    with pytest.raises(ValueError, match="One and Two both want to stand right after LoopDetectionMiddleware"):
        create_deerflow_agent(ScriptedModel.saying(), extra_middleware=[One(), Two()])


def test_a_disabled_anchor_is_reported() -> None:
    @Next(TodoMiddleware)
    class Extra(AgentMiddleware): ...

    with pytest.raises(ValueError, match="Extra is anchored to TodoMiddleware, which is not in the chain"):
        create_deerflow_agent(ScriptedModel.saying(), extra_middleware=[Extra()])


@pytest.mark.parametrize("other", [{"features": RuntimeFeatures()}, {"extra_middleware": []}])
def test_a_complete_chain_excludes_features_and_extras(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="middleware is the whole chain"):
        create_deerflow_agent(ScriptedModel.saying(), middleware=[], **other)


def test_a_complete_chain_replaces_the_default_chain() -> None:
    model = ScriptedModel.saying("Hello.")
    agent = create_deerflow_agent(model, middleware=[])
    assert agent.invoke(INPUT)["messages"][-1].text == "Hello."
    assert set(agent.get_graph().nodes) == {"__start__", "model", "__end__"}
    assert model.requests[0].tools == ()


def test_the_chain_adds_no_nodes_to_the_graph() -> None:
    agent = create_deerflow_agent(ScriptedModel.saying("Hello."), features=ALL_FEATURES)
    assert set(agent.get_graph().nodes) == {"__start__", "model", "tools", "__end__"}
    assert isinstance(agent.invoke({"messages": [HumanMessage("Hi")]})["messages"][-1], AIMessage)
