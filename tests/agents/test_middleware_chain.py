"""The middlewares together, with faults of a real model server."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.clarification_middleware import ClarificationMiddleware
from deerflow.agents.middlewares.dangling_tool_call_middleware import DanglingToolCallMiddleware, is_complete
from deerflow.agents.middlewares.loop_detection_middleware import LoopDetectionMiddleware
from deerflow.agents.middlewares.model_calls import (
    EmptyAnswerMiddleware,
    ModelRecoveryMiddleware,
    RetryClock,
)
from deerflow.agents.middlewares.subagent_limit_middleware import SubagentLimitMiddleware
from deerflow.agents.middlewares.token_usage_middleware import TokenUsageMiddleware
from deerflow.agents.middlewares.tool_error_handling_middleware import ToolErrorHandlingMiddleware
from deerflow.config.sections.runs import LlmCallConfig, LoopDetectionConfig
from deerflow.domain.errors import ModelRejected, ModelUnavailable
from deerflow.guardrails.middleware import GuardrailMiddleware
from deerflow.guardrails.providers import AllowlistProvider
from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel
from deerflow.testing import (
    Answer,
    CutAfter,
    RateLimited,
    ScriptedServer,
    ServerFault,
    ToolRequest,
    calling,
    in_parallel,
    thinking,
)
from deerflow.tools.builtins import ask_clarification_tool

CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 200}


@tool
async def look(place: str) -> str:
    """Look somewhere."""
    if place == "nowhere":
        raise LookupError("there is nothing")
    return f"a deer at {place}"


async def skip_wait(_: float) -> None:
    """Return at once."""


def create_test_agent(server: ScriptedServer) -> Any:
    model = OpenAICompatibleChatModel(model="scripted", base_url=server.base_url)
    chain = [
        TokenUsageMiddleware(),
        DanglingToolCallMiddleware(),
        GuardrailMiddleware(AllowlistProvider(denied_tools=["wipe"])),
        ToolErrorHandlingMiddleware(),
        SubagentLimitMiddleware(),
        LoopDetectionMiddleware(LoopDetectionConfig()),
        EmptyAnswerMiddleware(),
        ModelRecoveryMiddleware(LlmCallConfig(), clock=RetryClock(sleep=skip_wait)),
        ClarificationMiddleware(),
    ]
    tools = [look, ask_clarification_tool]
    return create_agent(model, tools, middleware=chain, state_schema=ThreadState, checkpointer=InMemorySaver())


async def run_turn(agent: Any, text: str) -> list[Any]:
    """Stream a turn as runs do, and return all messages."""
    messages: list[Any] = []
    parts = agent.astream({"messages": [HumanMessage(text)]}, CONFIG, stream_mode=["messages", "values"])
    async for mode, part in parts:
        messages = part["messages"] if mode == "values" else messages
    return messages


CUT_CALL = Answer(calls=(ToolRequest("look", '{"place": "the for'),), finish_reason="length")
FAULTS: dict[str, tuple[Sequence[Any], str]] = {
    "cut mid-token": ([CutAfter(2), "Whole."], "Whole."),
    "429 with Retry-After": ([RateLimited(retry_after=3), "Later."], "Later."),
    "a fault of the server": ([ServerFault(503), ServerFault(500), "Up again."], "Up again."),
    "malformed arguments": ([Answer(calls=(ToolRequest("look", '{"place": }'),)), "Sorry."], "Sorry."),
    "arguments that are no object": ([Answer(calls=(ToolRequest("look", '"here"'),)), "Sorry."], "Sorry."),
    "arguments cut by the length limit": ([CUT_CALL, "Sorry."], "Sorry."),
    "an unknown tool": ([calling("lok", place="here"), "Sorry."], "Sorry."),
    "a tool that fails": ([calling("look", place="nowhere"), "Nothing there."], "Nothing there."),
    "a tool that is not allowed": ([calling("wipe"), "I may not."], "I may not."),
    "300 calls at once": (
        [in_parallel(*(calling("look", place=str(number)) for number in range(300))), "Deer everywhere."],
        "Deer everywhere.",
    ),
    "an empty answer": ([Answer(), "Words."], "Words."),
    "thoughts alone, twice": ([thinking("hm"), thinking("hm")], "The model gave no answer, even when asked again."),
    "a content filter": (
        [Answer("I", finish_reason="content_filter")],
        "I\n\nThe model's provider stopped this answer",
    ),
    "a loop": ([calling("look", place="here")] * 5, "I stopped here because I was going round in circles"),
    "a question": (
        [calling("ask_clarification", question="Where?", clarification_type="missing_info")],
        "Where?",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_faulty_turn_ends_with_text_and_the_thread_accepts_the_next_message(fault: str) -> None:
    script, answer = FAULTS[fault]
    async with ScriptedServer([*script, "And on it goes."]) as server:
        agent = create_test_agent(server)

        messages = await run_turn(agent, "where is the deer?")
        assert messages[-1].text.startswith(answer)
        assert is_complete(messages)

        assert (await run_turn(agent, "and now?"))[-1].text == "And on it goes."


@pytest.mark.parametrize(
    ("script", "error"),
    [([ServerFault(503)] * 3, ModelUnavailable), ([ServerFault(401, "wrong key")], ModelRejected)],
)
async def test_a_turn_that_cannot_recover_raises_a_named_error(script: list[Any], error: type) -> None:
    async with ScriptedServer([*script, "And on it goes."]) as server:
        agent = create_test_agent(server)
        with pytest.raises(error):
            await run_turn(agent, "where is the deer?")
        assert (await run_turn(agent, "and now?"))[-1].text == "And on it goes."


async def test_the_middlewares_add_no_nodes_to_the_graph() -> None:
    async with ScriptedServer([]) as server:
        assert set(create_test_agent(server).get_graph().nodes) == {"__start__", "model", "tools", "__end__"}
