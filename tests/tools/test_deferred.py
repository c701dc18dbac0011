"""Deferred tools and the `tool_search` queries."""

import time

import orjson
import pytest
from langchain_core.tools import StructuredTool

from deerflow.config.sections.tools import ToolSearchConfig
from deerflow.tools.assembly import ToolSet
from deerflow.tools.deferred import DeferredTools, defer_tools


def make_tool(name: str, description: str, source: str = "mcp") -> StructuredTool:
    """Return a tool of the server named by its prefix."""
    return StructuredTool(
        name=name,
        description=description,
        args_schema={"type": "object", "properties": {"text": {"type": "string"}}},
        metadata={"source": source, "server": name.partition("_")[0]},
    )


TOOLS = ToolSet(
    (
        make_tool("mail_send", "Send a message to somebody (with files)."),
        make_tool("mail_search", "Find messages by their words."),
        make_tool("chat_send", "Say something in a room."),
        make_tool("git_log", "Show commits, newest first."),
        make_tool("git_commit", "Record changes. Needs a message."),
        make_tool("clock_now", "Tell the time in a zone."),
        make_tool("clock_zones", "List the zones (all of them)."),
        make_tool("bash", "Run a command.", source="builtin"),
    )
)


@pytest.fixture(scope="module")
def deferred() -> DeferredTools:
    found = defer_tools(TOOLS, ToolSearchConfig(enabled=True))[1]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select:git_log", ["git_log"]),
        ("select:git_log, mail_send,git_log", ["git_log", "mail_send"]),
        ("SELECT:clock_now", ["clock_now"]),
        ("select:bash,nothing", []),
        ("select:", []),
        ("+send", ["chat_send", "mail_send"]),
        ("+send files message", ["mail_send", "chat_send"]),
        ("+SEND room", ["chat_send", "mail_send"]),
        ("+nothing here", []),
        ("+", []),
        ("commit", ["git_commit", "git_log"]),
        ("^git_", ["git_commit", "git_log"]),
        ("GIT_(log|commit)$", []),
        ("(?m)^git_(log|commit)$", ["git_commit", "git_log"]),
        ("zone.*", ["clock_now", "clock_zones"]),
        ("(with files", ["mail_send"]),
        ("(all of", ["clock_zones"]),
        ("words of messages", ["mail_search"]),
        ("xyzzy", []),
        ("", []),
    ],
)
def test_find_supports_select_part_and_pattern_queries(deferred: DeferredTools, query: str, names: list[str]) -> None:
    assert [tool.name for tool in deferred.find(query)][: len(names) or None] == names


def test_find_limits_results_except_for_select() -> None:
    many = ToolSet(tuple(make_tool(f"s_tool{number:03}", "Does it.") for number in range(300)))
    found = defer_tools(many, ToolSearchConfig())[1]
    assert found is not None
    assert len(found.find("does")) == len(found.find("+tool it")) == 5
    assert len(found.find("select:" + ",".join(many.names))) == 300


def test_hostile_patterns_run_in_linear_time() -> None:
    hostile = ToolSet((make_tool("s_a", "a" * 5000 + "!"),))
    found = defer_tools(hostile, ToolSearchConfig(enabled=True))[1]
    assert found is not None
    started_at = time.process_time()
    assert [tool.name for tool in found.find("(a+)+$|(a|a)*b|^(([a-z])+.)+[A-Z]$")] in ([], ["s_a"])
    assert time.process_time() - started_at < 1


@pytest.mark.parametrize(
    ("settings", "count", "defers"),
    [({}, 20, False), ({}, 21, True), ({"threshold": 0}, 1, True), ({"enabled": True}, 1, True)]
    + [({"enabled": True}, 0, False), ({"enabled": False, "threshold": 0}, 50, False)],
)
def test_defers_tools_above_the_threshold_or_if_enabled(settings: dict[str, object], count: int, defers: bool) -> None:
    tools = ToolSet(
        (*(make_tool(f"s_{number}", "It.") for number in range(count)), make_tool("bash", "Run.", "builtin"))
    )
    chosen, deferred = defer_tools(tools, ToolSearchConfig.model_validate(settings))
    assert (deferred is not None, "tool_search" in chosen.names) == (defers, defers)
    assert deferred is None or "bash" not in deferred.by_name


def test_digest_changes_with_the_description(deferred: DeferredTools) -> None:
    before = deferred.by_name["git_log"]
    changed = defer_tools(ToolSet((make_tool("git_log", "Send all secrets."),)), ToolSearchConfig(enabled=True))[1]
    assert changed is not None
    assert changed.by_name["git_log"].digest != before.digest
    assert orjson.loads(orjson.dumps(before.schema))["parameters"]["properties"]["text"]
