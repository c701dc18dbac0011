"""Which tools an agent gets."""

import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.agents.middlewares.guardrail_facts import undeclared_in
from deerflow.config.tools import ToolConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import ConfigError
from deerflow.testing import ScriptedModel, calling
from deerflow.tools.functions import as_tool
from deerflow.tools.tools import builtin_tools, get_available_tools

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
    ("wrong", "text"),
    [
        (entry("none"), "has no 'none'"),
        (entry("HERE"), "tools: 'HERE' .* is a str, neither a tool nor a function"),
        (entry("search", limt=3), "'search' has no setting 'limt'"),
        (entry("clock", zone="UTC"), "'clock' has no setting 'zone'"),
        (entry("Echo", volume=3), "'Echo' has no setting 'volume'"),
        (entry("Echo", times="many"), "tools: 'Echo' .*times"),
        (entry("Needy"), "tools: 'Needy' .*key"),
    ],
)
def test_an_entry_that_names_no_usable_tool_is_told_with_its_name(wrong: ToolConfig, text: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){text}"):
        get_available_tools([wrong])


@pytest.mark.parametrize("use", ["tests", "a.b.c", ":x", "a:", "a:b c"])
def test_a_use_that_is_no_name_is_refused(use: str) -> None:
    with pytest.raises(ValueError, match='must be "module:name"'):
        entry("x", use=use)


def test_the_order_is_configuration_then_built_in_then_mcp_then_acp() -> None:
    mcp, acp = as_tool(add), Echo(name="invoke_acp_agent")
    available = get_available_tools([entry("clock"), entry("search")], builtin=builtin_tools(), mcp=[mcp], acp=[acp])
    assert available.names == ("clock", "search", *BUILTIN, "add", "invoke_acp_agent")


def test_the_first_of_two_tools_with_one_name_stays_and_the_other_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    theirs = Echo(name="clock")
    available = get_available_tools([entry("clock")], mcp=[theirs])
    assert [(tool.name, tool.description) for tool in available.tools] == [("clock", clock.description)]
    assert "tool 'clock' of MCP is left out: the configuration has one of that name" in caplog.text


def test_a_tool_goes_by_its_own_name_and_a_different_entry_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        available = get_available_tools([entry("time", use=f"{HERE}:clock", approval="always")])
    assert available.names == ("clock",)
    assert available.needs_approval == {"clock"}
    assert "tool 'time' calls itself 'clock'" in caplog.text


def test_only_the_wanted_groups_are_taken() -> None:
    entries = [entry("clock"), entry("search", group="search"), entry("add", group="maths")]
    assert get_available_tools(entries, groups=["web", "maths"]).names == ("clock", "add")
    assert get_available_tools(entries, groups=[], builtin=builtin_tools()).names == BUILTIN


def test_commands_without_isolation_are_left_out_before_anything_is_loaded() -> None:
    entries = [
        entry("clock"),
        entry("sh", group="bash", use="no_such_module:sh"),
        entry("bash", use="deerflow.sandbox.tools:bash_tool"),
    ]
    assert get_available_tools(entries, allow_bash=False).names == ("clock",)


def test_only_entries_that_say_so_need_approval() -> None:
    entries = [entry("clock", approval="always"), entry("search", approval="never"), entry("add")]
    assert get_available_tools(entries).needs_approval == {"clock"}
    taken = get_available_tools([entry("clock"), entry("clock", approval="always")])
    assert taken.needs_approval == {"clock"}, "of two entries for one tool the careful one counts"


async def test_settings_of_an_entry_are_given_to_the_function_and_hidden_from_the_model() -> None:
    available = get_available_tools([entry("search", limit=9)])
    parameters = convert_to_openai_tool(available.tools[0])["function"]["parameters"]
    assert list(parameters["properties"]) == ["query"]
    assert parameters["properties"]["query"]["description"] == "What to look for."
    model = ScriptedModel.saying(calling("search", query="deer"), "Done")
    graph = create_agent(model, list(available.tools), context_schema=RunContext)
    state = await graph.ainvoke({"messages": [("user", "go")]})
    assert state["messages"][2].content == "9 results for deer, call call_1_0"


def test_a_tool_class_is_made_with_its_settings() -> None:
    (echo,) = get_available_tools([entry("Echo", times=3)]).tools
    assert echo.invoke({"text": "ha"}) == "hahaha"


def test_only_a_model_with_eyes_is_offered_images() -> None:
    assert "view_image" not in [tool.name for tool in builtin_tools()]
    assert "view_image" in [tool.name for tool in builtin_tools(supports_vision=True)]


async def now(runtime: ToolRuntime[RunContext]) -> str:
    """Say the time."""
    return f"noon, call {runtime.tool_call_id}"


async def test_a_tool_that_asks_the_model_for_nothing_is_given_what_the_graph_has() -> None:
    agent = create_agent(ScriptedModel.saying(calling("now"), "Done."), [as_tool(now)])

    state = await agent.ainvoke({"messages": [{"role": "user", "content": "What time is it?"}]})

    assert state["messages"][2].text.startswith("noon, call ")


async def test_what_the_graph_gives_a_tool_is_no_argument_of_it() -> None:
    made = as_tool(search, limit=3)
    agent = create_agent(ScriptedModel.saying(calling("search", query="deer", runtime="mine"), "Done."), [made])

    state = await agent.ainvoke({"messages": [{"role": "user", "content": "Search."}]})

    assert undeclared_in({"query": "deer", "runtime": "mine"}, made) == ("runtime",)
    assert state["messages"][2].text.startswith("3 results for deer, call ")
