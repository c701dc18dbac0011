"""The names people write in code and configuration lead somewhere."""

import pytest
from langchain.agents.middleware import AgentMiddleware

from deerflow.config.imports import load_object

MIDDLEWARES = (
    "thread_data", "uploads", "dangling_tool_call", "guardrail", "tool_error_handling", "summarization", "todo",
    "title", "memory", "view_image", "subagent_limit", "loop_detection", "token_usage", "deferred_tool_filter",
    "clarification",
)  # fmt: skip
NAMES = (
    "deerflow.client:DeerFlowClient",
    "deerflow.agents:make_lead_agent",
    "deerflow.agents:create_deerflow_agent",
    "deerflow.agents:Next",
    "deerflow.agents:Prev",
    "deerflow.agents.features:RuntimeFeatures",
    "deerflow.agents.thread_state:ThreadState",
    "deerflow.sandbox.middleware:SandboxMiddleware",
    "deerflow.runtime:RunManager",
    "deerflow.runtime:RunStatus",
    "deerflow.runtime:DisconnectMode",
    "deerflow.runtime:StreamBridge",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_founding_name_leads_somewhere(name: str) -> None:
    assert load_object(name) is not None


@pytest.mark.parametrize("name", MIDDLEWARES)
def test_every_middleware_is_where_its_name_says(name: str) -> None:
    class_name = "".join(part.capitalize() for part in name.split("_")) + "Middleware"
    found = load_object(f"deerflow.agents.middlewares.{name}_middleware:{class_name}")
    assert isinstance(found, type) and issubclass(found, AgentMiddleware)
