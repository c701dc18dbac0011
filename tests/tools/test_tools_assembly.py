"""Assembly of an agent's tools."""

import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.agent_support.tools import as_tool
from deerflow.config.sections.tools import ToolConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import ConfigError
from deerflow.guardrails.call_context import find_undeclared_arguments
from deerflow.testing import ScriptedModel, calling
from deerflow.tools.assembly import builtin_tools, get_available_tools

HERE = __name__
BUILTIN = ("present_files", "ask_clarification", "list_uploaded_files", "search_history")


async def search(query: str, runtime: ToolRuntime[RunContext], limit: int = 5) -> str:
    """Search the web.

    Args:
        query: What to look for.
        limit: How many results to give.
    """
    return f"{limit} results for {query}, call {runtime.tool_call_id}"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def clock() -> str:
    """Say the time."""
    return "noon"


class Echo(BaseTool):
    name: str = "echo"
    description: str = "Say it again."
    times: int = 1

    def _run(self, text: str) -> str:
        return text * self.times


class Needy(BaseTool):
    name: str = "needy"
    description: str = "Needs a key."
    key: str

    def _run(self) -> str:
        return self.key


def entry(name: str, **keys: Any) -> ToolConfig:
    return ToolConfig.model_validate({"name": name, "group": "web", "use": f"{HERE}:{name}", **keys})


@pytest.mark.parametrize(
    ("invalid", "text"),
    [
        (entry("none"), "has no 'none'"),
        (entry("HERE"), "tools: 'HERE' .* str is neither a tool nor a function"),
        (entry("search", limt=3), "'search' has no setting 'limt'"),
        (entry("clock", zone="UTC"), "'clock' has no setting 'zone'"),
        (entry("Echo", volume=3), "'Echo' has no setting 'volume'"),
        (entry("Echo", times="many"), "tools: 'Echo' .*times"),
        (entry("Needy"), "tools: 'Needy' .*key"),
    ],
)
def test_refuses_invalid_entries_with_their_name(invalid: ToolConfig, text: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){text}"):
        get_available_tools([invalid])


@pytest.mark.parametrize("use", ["tests", "a.b.c", ":x", "a:", "a:b c"])
def test_refuses_malformed_use(use: str) -> None:
    with pytest.raises(ValueError, match='must be "module:name"'):
        entry("x", use=use)


def test_orders_tools_by_source() -> None:
    mcp, acp = as_tool(add), Echo(name="invoke_acp_agent")
    available = get_available_tools([entry("clock"), entry("search")], builtin=builtin_tools(), mcp=[mcp], acp=[acp])
    assert available.names == ("clock", "search", *BUILTIN, "add", "invoke_acp_agent")


def test_keeps_the_first_of_duplicate_names_and_logs_the_other(caplog: pytest.LogCaptureFixture) -> None:
    mcp_tool = Echo(name="clock")
    available = get_available_tools([entry("clock")], mcp=[mcp_tool])
    assert [(tool.name, tool.description) for tool in available.tools] == [("clock", clock.description)]
    assert "tool 'clock' of MCP skipped: the name is used by the configuration" in caplog.text


def test_uses_the_name_of_the_tool_and_logs_a_different_entry_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        available = get_available_tools([entry("time", use=f"{HERE}:clock", approval="always")])
    assert available.names == ("clock",)
    assert available.needs_approval == {"clock"}
    assert "tool 'time' is named 'clock' by its class" in caplog.text


def test_filters_by_groups() -> None:
    entries = [entry("clock"), entry("search", group="search"), entry("add", group="maths")]
    assert get_available_tools(entries, groups=["web", "maths"]).names == ("clock", "add")
    assert get_available_tools(entries, groups=[], builtin=builtin_tools()).names == BUILTIN


def test_skips_commands_without_isolation_before_loading() -> None:
    entries = [
        entry("clock"),
        entry("sh", group="bash", use="no_such_module:sh"),
        entry("bash", use="deerflow.sandbox.tools:bash_tool"),
    ]
    assert get_available_tools(entries, allow_bash=False).names == ("clock",)


def test_approval_is_set_by_entry() -> None:
    entries = [entry("clock", approval="always"), entry("search", approval="never"), entry("add")]
    assert get_available_tools(entries).needs_approval == {"clock"}
    duplicates = get_available_tools([entry("clock"), entry("clock", approval="always")])
    assert duplicates.needs_approval == {"clock"}, "approval in either entry of a tool applies"


async def test_settings_are_bound_and_hidden_from_the_model() -> None:
    available = get_available_tools([entry("search", limit=9)])
    parameters = convert_to_openai_tool(available.tools[0])["function"]["parameters"]
    assert list(parameters["properties"]) == ["query"]
    assert parameters["properties"]["query"]["description"] == "What to look for."
    model = ScriptedModel.saying(calling("search", query="deer"), "Done")
    graph = create_agent(model, list(available.tools), context_schema=RunContext)
    state = await graph.ainvoke({"messages": [("user", "go")]})
    assert state["messages"][2].content == "9 results for deer, call call_1_0"


def test_instantiates_tool_classes_with_settings() -> None:
    (echo,) = get_available_tools([entry("Echo", times=3)]).tools
    assert echo.invoke({"text": "ha"}) == "hahaha"


def test_view_image_requires_vision() -> None:
    assert "view_image" not in [tool.name for tool in builtin_tools()]
    assert "view_image" in [tool.name for tool in builtin_tools(supports_vision=True)]


async def now(runtime: ToolRuntime[RunContext]) -> str:
    """Say the time."""
    return f"noon, call {runtime.tool_call_id}"


async def test_tool_without_arguments_gets_the_runtime() -> None:
    agent = create_agent(ScriptedModel.saying(calling("now"), "Done."), [as_tool(now)])

    state = await agent.ainvoke({"messages": [{"role": "user", "content": "What time is it?"}]})

    assert state["messages"][2].text.startswith("noon, call ")


async def test_injected_arguments_cannot_be_set_by_the_model() -> None:
    made = as_tool(search, limit=3)
    agent = create_agent(ScriptedModel.saying(calling("search", query="deer", runtime="mine"), "Done."), [made])

    state = await agent.ainvoke({"messages": [{"role": "user", "content": "Search."}]})

    assert find_undeclared_arguments({"query": "deer", "runtime": "mine"}, made) == ("runtime",)
    assert state["messages"][2].text.startswith("3 results for deer, call ")
