"""Reading the agent spec from a LangGraph configuration."""

import pytest

from deerflow.agents.spec import read_spec
from deerflow.domain.runs import AgentSpec


def test_all_keys_are_read() -> None:
    settings = {
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
    assert read_spec({"configurable": settings}) == expected
    assert read_spec({"configurable": {}, "context": settings}) == expected  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize("key", ["model", "model_name"])
def test_the_model_has_two_keys(key: str) -> None:
    assert read_spec({"configurable": {key: "gpt"}}).model_name == "gpt"


def test_the_context_overrides_the_configuration() -> None:
    config = {"configurable": {"model_name": "one"}, "context": {"model_name": "two"}}
    assert read_spec(config).model_name == "two"  # type: ignore[arg-type]


def test_without_keys_the_spec_has_defaults() -> None:
    assert read_spec({}) == AgentSpec()
