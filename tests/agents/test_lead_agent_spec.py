"""What LangGraph's configuration asks of the lead agent."""

import pytest

from deerflow.agents.spec import read_spec
from deerflow.domain.runs import AgentSpec


def test_every_founding_key_is_read() -> None:
    asked = {
        "thinking_enabled": False,
        "reasoning_effort": "high",
        "model_name": "gpt",
        "is_plan_mode": True,
        "subagent_enabled": True,
        "max_concurrent_subagents": 2,
        "agent_name": "writer",
        "is_bootstrap": True,
        "user_id": "me",
        "thread_id": "t",
        "unknown": 1,
    }
    expected = AgentSpec("gpt", False, "high", True, True, 2, "writer", True, "me")
    assert read_spec({"configurable": asked}) == expected
    assert read_spec({"configurable": {}, "context": asked}) == expected  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize("key", ["model", "model_name"])
def test_the_model_has_two_names(key: str) -> None:
    assert read_spec({"configurable": {key: "gpt"}}).model_name == "gpt"


def test_the_context_wins_over_the_configuration() -> None:
    config = {"configurable": {"model_name": "one"}, "context": {"model_name": "two"}}
    assert read_spec(config).model_name == "two"  # type: ignore[arg-type]


def test_nothing_asked_is_nothing_set() -> None:
    assert read_spec({}) == AgentSpec()
