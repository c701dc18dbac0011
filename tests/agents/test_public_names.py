"""Public names that users write in code and configuration can be imported."""

import pytest
from langchain.agents.middleware import AgentMiddleware

from deerflow.config.imports import load_class, load_object
from deerflow.config.sections.tools import ToolConfig
from deerflow.domain.errors import ConfigError
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.tools.assembly import ToolSet, get_available_tools, sandbox_tools
from tests.agents.support import WEB_TOOLS

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
    "deerflow.sandbox.sandbox:Sandbox",
    "deerflow.sandbox.sandbox_provider:SandboxProvider",
    "deerflow.sandbox.local:LocalSandboxProvider",
    "deerflow.community.aio_sandbox:AioSandboxProvider",
    "deerflow.subagents:SubagentConfig",
    "deerflow.runtime:RunManager",
    "deerflow.runtime:RunStatus",
    "deerflow.runtime:DisconnectMode",
    "deerflow.runtime:StreamBridge",
)
TOOLS = (
    "bash", "bash_output", "bash_kill", "ls", "glob", "grep", "read_file", "write_file", "str_replace",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert load_object(name) is not None


@pytest.mark.parametrize("name", MIDDLEWARES)
def test_every_middleware_is_in_the_module_of_its_name(name: str) -> None:
    class_name = "".join(part.capitalize() for part in name.split("_")) + "Middleware"
    found = load_object(f"deerflow.agents.middlewares.{name}_middleware:{class_name}")
    assert isinstance(found, type) and issubclass(found, AgentMiddleware)


@pytest.mark.parametrize("name", TOOLS)
def test_every_sandbox_tool_can_be_configured(name: str) -> None:
    entry = ToolConfig(name=name, group="own", use=f"deerflow.sandbox.tools:{name}_tool", approval="always")
    tools = get_available_tools([entry], builtin=sandbox_tools())
    assert tools.names.count(name) == 1 and len(tools.names) == len(TOOLS)
    assert tools.needs_approval == {name}


@pytest.mark.parametrize(
    ("provider", "name"), [(provider, name) for provider, names in WEB_TOOLS.items() for name in names]
)
def test_every_web_tool_can_be_configured(provider: str, name: str) -> None:
    def load(**settings: object) -> ToolSet:
        use = f"deerflow.community.{provider}.tools:{name}_tool"
        return get_available_tools([ToolConfig.model_validate({"name": name, "group": "web", "use": use, **settings})])

    assert load(timeout=5).names == (name,)
    with pytest.raises(ConfigError, match=f"tools: '{name}' .*'{name}' has no setting 'timout'"):
        load(timout=5)
    with pytest.raises(ConfigError, match=f"(?s)tools: '{name}' .*timeout"):
        load(timeout="soon")


@pytest.mark.parametrize(
    "name", ["deerflow.sandbox.local:LocalSandboxProvider", "deerflow.community.aio_sandbox:AioSandboxProvider"]
)
def test_sandbox_providers_are_subclasses_of_sandbox_provider(name: str) -> None:
    assert load_class(name, SandboxProvider)  # type: ignore[type-abstract]
