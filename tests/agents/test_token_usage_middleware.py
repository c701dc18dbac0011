"""What a turn costs."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.replies import Reply
from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.token_usage_middleware import TokenUsageMiddleware, add_turn_usage
from deerflow.testing import Answer, ScriptedModel, Usage, calling


@tool
def look() -> str:
    """Look."""
    return "seen"


def costing(answer: Answer, given: int, said: int, cached: int = 0) -> Answer:
    return Answer(answer.text, calls=answer.calls, usage=Usage(given, said, cached))


def spent(messages: list[Any]) -> list[tuple[int, int, int]]:
    usages = [message.response_metadata["turn_usage"] for message in messages if isinstance(message, AIMessage)]
    return [(usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) for usage in usages]


def test_a_reply_that_does_not_say_what_it_cost_is_left_alone() -> None:
    reply = Reply([AIMessage("hi")])
    assert add_turn_usage([HumanMessage("hi")], reply) is reply


async def test_usage_is_added_up_within_a_turn_and_begins_anew_with_the_next() -> None:
    model = ScriptedModel.saying(
        costing(calling("look"), 100, 5),
        costing(calling("look"), 200, 6, cached=90),
        costing(Answer("Done."), 300, 7, cached=150),
        costing(Answer("Welcome."), 400, 8),
    )
    chain = [TokenUsageMiddleware()]
    agent = create_agent(model, [look], middleware=chain, state_schema=ThreadState, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}

    first = (await agent.ainvoke({"messages": [HumanMessage("go")]}, config))["messages"]
    second = (await agent.ainvoke({"messages": [HumanMessage("thanks")]}, config))["messages"]

    assert spent(first) == [(100, 5, 105), (300, 11, 311), (600, 18, 618)]
    assert first[-1].response_metadata["turn_usage"]["input_token_details"]["cache_read"] == 240
    assert spent(second)[-1] == (400, 8, 408)


async def test_no_node_is_added_to_the_graph() -> None:
    nodes = create_agent(ScriptedModel(), [look], middleware=[TokenUsageMiddleware()]).get_graph().nodes
    assert set(nodes) == {"__start__", "model", "tools", "__end__"}
