"""Loop detection: repeated calls cause a warning, then a stop."""

import json
from itertools import count
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ValidationError

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.dangling_tool_call_middleware import is_complete
from deerflow.agents.middlewares.loop_detection_middleware import LoopDetectionMiddleware, normalize_calls
from deerflow.config.sections.runs import LoopDetectionConfig, ToolFrequency
from deerflow.testing import Answer, ScriptedModel, ToolRequest, calling, in_parallel


@tool
async def search(query: str, description: str = "") -> str:
    """Search."""
    return f"nothing about {query}"


@tool
async def look(place: int) -> str:
    """Look somewhere."""
    return "nothing"


def create_test_agent(model: ScriptedModel, **settings: Any) -> Any:
    loops = LoopDetectionMiddleware(LoopDetectionConfig(**settings))
    return create_agent(
        model, [search, look], middleware=[loops], state_schema=ThreadState, checkpointer=InMemorySaver()
    )


async def ask(agent: Any, text: str = "find it") -> list[Any]:
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 1000}
    return (await agent.ainvoke({"messages": [HumanMessage(text)]}, config))["messages"]


def warned_calls(model: ScriptedModel) -> list[int]:
    """Return the numbers of the model calls that contain a warning."""
    return [
        number
        for number, call in enumerate(model.requests, 1)
        if any(message.additional_kwargs.get("hide_from_ui") for message in call.messages)
    ]


async def test_the_fifth_equal_reply_ends_the_turn_with_the_reason() -> None:
    model = ScriptedModel.saying(*[calling("search", query="deer")] * 5)

    messages = await ask(create_test_agent(model))

    last = messages[-1]
    assert last.tool_calls == []
    assert last.text == (
        "I stopped here because I was going round in circles: search with the same arguments, 5 times."
    )
    assert last.response_metadata["stop_reason"] == "loop_capped"
    assert warned_calls(model) == [4, 5]
    assert is_complete(messages)
    # The warning is only in the model request.
    assert [message.type for message in messages] == ["human", *["ai", "tool"] * 4, "ai"]


async def test_a_model_that_follows_the_warning_continues() -> None:
    same = calling("search", query="deer")
    model = ScriptedModel.saying(same, same, same, calling("search", query="elk"), "It was an elk.")

    messages = await ask(create_test_agent(model))

    assert messages[-1].text == "It was an elk."
    assert warned_calls(model) == [4]
    assert (
        model.requests[3]
        .messages[-1]
        .text.startswith("You have asked for the same thing 3 times: search with the same arguments.")
    )


async def test_the_text_before_the_stop_is_kept() -> None:
    last = Answer("I try once more.", calls=calling("search", query="deer").calls)
    messages = await ask(create_test_agent(ScriptedModel.saying(*[calling("search", query="deer")] * 4, last)))
    assert messages[-1].text.startswith("I try once more.\n\nI stopped here because")


async def test_the_count_restarts_with_the_next_user_message() -> None:
    same = calling("search", query="deer")
    model = ScriptedModel.saying(same, same, "No deer.", same, same, "Still no deer.")
    agent = create_test_agent(model)
    await ask(agent)
    assert (await ask(agent, "look again"))[-1].text == "Still no deer."
    assert warned_calls(model) == []


async def test_equal_replies_outside_the_window_are_no_loop() -> None:
    numbers = count()
    others = [calling("look", place=next(numbers)) for _ in range(3)]
    script = [step for _ in range(3) for step in (calling("search", query="deer"), *others)]
    model = ScriptedModel.saying(*script, "Done.")
    await ask(create_test_agent(model, window_size=8, tool_freq_warn=100, tool_freq_hard_limit=200, hard_limit=5))
    assert warned_calls(model) == []


async def test_too_many_calls_of_one_tool_are_a_loop() -> None:
    model = ScriptedModel.saying(*(calling("look", place=number) for number in range(50)))
    messages = await ask(create_test_agent(model))
    assert messages[-1].text == "I stopped here because I was going round in circles: look in one turn, 50 times."
    assert warned_calls(model) == list(range(31, 51))


async def test_repeated_malformed_calls_are_a_loop() -> None:
    model = ScriptedModel.saying(*[Answer(calls=(ToolRequest("search", '{"query": }'),))] * 5)
    messages = await ask(create_test_agent(model))
    assert messages[-1].response_metadata["stop_reason"] == "loop_capped"
    assert is_complete(messages)


async def test_many_parallel_calls_cause_a_warning_before_a_stop() -> None:
    sixty = in_parallel(*(calling("look", place=number) for number in range(60)))
    model = ScriptedModel.saying(sixty, calling("look", place=60))
    messages = await ask(create_test_agent(model))
    assert warned_calls(model) == [2]
    assert sum(message.type == "tool" for message in messages) == 60
    assert messages[-1].response_metadata["stop_reason"] == "loop_capped"


async def test_a_tool_can_have_its_own_limits() -> None:
    model = ScriptedModel.saying(*(calling("look", place=number) for number in range(4)))
    overrides = {"look": ToolFrequency(warn=2, hard_limit=4)}
    messages = await ask(create_test_agent(model, tool_freq_overrides=overrides))
    assert messages[-1].response_metadata["stop_reason"] == "loop_capped"


def test_synchronous_calls_stop_too() -> None:
    @tool
    def peek(path: str) -> str:
        """Peek."""
        return path

    model = ScriptedModel.saying(*[calling("peek", path="/a")] * 5)
    agent = create_agent(model, [peek], middleware=[LoopDetectionMiddleware(LoopDetectionConfig())])
    messages = agent.invoke({"messages": [HumanMessage("go")]})["messages"]
    assert messages[-1].response_metadata["stop_reason"] == "loop_capped"


def tool_calls(answer: Answer) -> list[Any]:
    return AIMessage(
        "",
        tool_calls=[
            {"name": call.name, "args": json.loads(call.arguments), "id": str(number)}
            for number, call in enumerate(answer.calls)
        ],
    ).tool_calls


def test_calls_are_compared_by_their_relevant_arguments() -> None:
    one, other = calling("search", query="a", description="first"), calling("search", query="b")
    assert normalize_calls(tool_calls(in_parallel(one, other))) == normalize_calls(
        tool_calls(in_parallel(other, calling("search", query="a")))
    )
    assert normalize_calls(tool_calls(one)) != normalize_calls(tool_calls(other))

    reads = [calling("read_file", path="/a", start_line=line) for line in (1, 150, 250)]
    assert (
        normalize_calls(tool_calls(reads[0]))
        == normalize_calls(tool_calls(reads[1]))
        != normalize_calls(tool_calls(reads[2]))
    )

    writes = [calling("write_file", path="/a", content=content) for content in ("x", "y")]
    assert normalize_calls(tool_calls(writes[0])) != normalize_calls(tool_calls(writes[1]))


@pytest.mark.parametrize(
    "settings",
    [
        {"warn_threshold": 5, "hard_limit": 5},
        {"tool_freq_warn": 60},
        {"window_size": 3},
        {"tool_freq_overrides": {"look": {"warn": 5, "hard_limit": 5}}},
        {"max_tracked": 1},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LoopDetectionConfig(**settings)
