"""Large tool results."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.tool_calls import ToolOutputMiddleware
from deerflow.config.sections.tools import ToolOutputConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import FileProblem
from deerflow.sandbox.files.files import LocalThreadFiles, thread_files
from deerflow.testing import ScriptedModel, calling
from tests.agents.support import EmptyHistory

LARGE = "begin " + "x" * 40_000 + " end"


class FullDiskFiles(LocalThreadFiles):
    async def write(self, path: str, content: bytes) -> None:
        raise FileProblem("the disk is full")


def shout() -> str:
    """Say a lot."""
    return LARGE


def whisper() -> str:
    """Say little."""
    return "psst"


def read_file() -> str:
    """Read a file."""
    return LARGE


def draw() -> list[dict[str, Any]]:
    """Draw a large image."""
    return [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}, {"type": "text", "text": LARGE}]


def publish(runtime: ToolRuntime[RunContext]) -> Command[Any]:
    """Say a lot and change the state."""
    return Command(update={"title": "new", "messages": [ToolMessage(LARGE, tool_call_id=runtime.tool_call_id or "")]})


def create_test_agent(tool: str, settings: ToolOutputConfig) -> Any:
    return create_agent(
        ScriptedModel.saying(calling(tool), "done"),
        [shout, whisper, read_file, draw, publish],
        middleware=[ToolOutputMiddleware(settings)],
        state_schema=ThreadState,
        context_schema=RunContext,
    )


async def run_tool(
    tool: str, files: LocalThreadFiles | None, settings: ToolOutputConfig | None = None
) -> dict[str, Any]:
    context = RunContext("t", "r", "u", files, EmptyHistory()) if files else None
    graph = create_test_agent(tool, settings or ToolOutputConfig())
    state: dict[str, Any] = await graph.ainvoke({"messages": [("user", "go")]}, context=context)
    return state


def tool_result(state: dict[str, Any]) -> ToolMessage:
    message = state["messages"][2]
    assert isinstance(message, ToolMessage)
    return message


async def test_large_output_is_clipped_if_the_disk_is_full(tmp_path: Path) -> None:
    text = tool_result(await run_tool("shout", FullDiskFiles(()))).text
    assert len(text) < 11_100
    assert text.startswith("begin") and text.endswith("end")
    assert "characters left out" in text


async def test_large_output_is_clipped_without_files() -> None:
    assert len(tool_result(await run_tool("shout", None)).text) < 11_100


def test_synchronous_calls_clip_large_output() -> None:
    state = create_test_agent("shout", ToolOutputConfig()).invoke({"messages": [("user", "go")]})
    assert len(tool_result(state).text) < 11_100


async def test_a_large_result_is_written_to_a_file_named_in_the_message(tmp_path: Path) -> None:
    files = thread_files(tmp_path)
    message = tool_result(await run_tool("shout", files))
    path = next(word for word in message.text.split() if word.startswith("/mnt/user-data/outputs/.tool-results/shout-"))
    assert await files.read(path.rstrip(".")) == LARGE.encode()
    assert len(message.text) < 3500
    assert "begin xxx" in message.text and "xxx end" in message.text


async def test_a_result_with_a_state_update_is_shortened_too(tmp_path: Path) -> None:
    state = await run_tool("publish", thread_files(tmp_path))
    assert len(tool_result(state).text) < 3500
    assert state["title"] == "new"


@pytest.mark.parametrize("tool", ["whisper", "read_file", "draw"])
async def test_small_exempt_and_image_results_are_unchanged(tool: str, tmp_path: Path) -> None:
    files = thread_files(tmp_path)
    message = tool_result(await run_tool(tool, files))
    assert "left out" not in str(message.content)
    assert await files.list("/mnt/user-data/outputs") == []


async def test_a_tool_may_have_its_own_limit(tmp_path: Path) -> None:
    settings = ToolOutputConfig(tool_overrides={"shout": 100_000})
    message = tool_result(await run_tool("shout", thread_files(tmp_path), settings))
    assert message.text == LARGE


async def test_results_are_unchanged_if_disabled(tmp_path: Path) -> None:
    assert tool_result(await run_tool("shout", thread_files(tmp_path), ToolOutputConfig(enabled=False))).text == LARGE
