"""Token usage per turn."""

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelResponse
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.token_usage_middleware import TokenUsageMiddleware, add_turn_usage
from deerflow.testing import Answer, ScriptedModel, Usage, calling


@tool
def look() -> str:
    """Look."""
    return "seen"


def with_usage(answer: Answer, input_tokens: int, output_tokens: int, cached: int = 0) -> Answer:
    return Answer(answer.text, calls=answer.calls, usage=Usage(input_tokens, output_tokens, cached))


def turn_usages(messages: list[Any]) -> list[tuple[int, int, int]]:
    usages = [message.response_metadata["turn_usage"] for message in messages if isinstance(message, AIMessage)]
    return [(usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) for usage in usages]


def test_a_reply_without_usage_is_unchanged() -> None:
    reply: ModelResponse[Any] = ModelResponse([AIMessage("hi")])
    assert add_turn_usage([HumanMessage("hi")], reply) is reply


async def test_usage_is_summed_per_turn() -> None:
    model = ScriptedModel.saying(
        with_usage(calling("look"), 100, 5),
        with_usage(calling("look"), 200, 6, cached=90),
        with_usage(Answer("Done."), 300, 7, cached=150),
        with_usage(Answer("Welcome."), 400, 8),
    )
    chain = [TokenUsageMiddleware()]
    agent = create_agent(model, [look], middleware=chain, state_schema=ThreadState, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}

    first = (await agent.ainvoke({"messages": [HumanMessage("go")]}, config))["messages"]
    second = (await agent.ainvoke({"messages": [HumanMessage("thanks")]}, config))["messages"]

    assert turn_usages(first) == [(100, 5, 105), (300, 11, 311), (600, 18, 618)]
    assert first[-1].response_metadata["turn_usage"]["input_token_details"]["cache_read"] == 240
    assert turn_usages(second)[-1] == (400, 8, 408)


async def test_the_middleware_adds_no_nodes_to_the_graph() -> None:
    nodes = create_agent(ScriptedModel(), [look], middleware=[TokenUsageMiddleware()]).get_graph().nodes
    assert set(nodes) == {"__start__", "model", "tools", "__end__"}
