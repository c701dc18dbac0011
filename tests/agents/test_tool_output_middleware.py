"""Large results of tools."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.tool_calls.tool_output import ToolOutputMiddleware
from deerflow.config.sections.tools import ToolOutputConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import FileProblem
from deerflow.sandbox.files.files import LocalThreadFiles, thread_files
from deerflow.testing import ScriptedModel, calling
from tests.agents.runs import NoHistory

LARGE = "begin " + "x" * 40_000 + " end"


class FullDisk(LocalThreadFiles):
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


def agent(tool: str, settings: ToolOutputConfig) -> Any:
    return create_agent(
        ScriptedModel.saying(calling(tool), "done"),
        [shout, whisper, read_file, draw, publish],
        middleware=[ToolOutputMiddleware(settings)],
        state_schema=ThreadState,
        context_schema=RunContext,
    )


async def run(tool: str, files: LocalThreadFiles | None, settings: ToolOutputConfig | None = None) -> dict[str, Any]:
    context = RunContext("t", "r", "u", files, NoHistory()) if files else None
    graph = agent(tool, settings or ToolOutputConfig())
    state: dict[str, Any] = await graph.ainvoke({"messages": [("user", "go")]}, context=context)
    return state


def result(state: dict[str, Any]) -> ToolMessage:
    message = state["messages"][2]
    assert isinstance(message, ToolMessage)
    return message


async def test_on_a_full_disk_the_middle_is_cut(tmp_path: Path) -> None:
    text = result(await run("shout", FullDisk(()))).text
    assert len(text) < 11_100
    assert text.startswith("begin") and text.endswith("end")
    assert "characters left out" in text


async def test_without_files_the_middle_is_cut() -> None:
    assert len(result(await run("shout", None)).text) < 11_100


def test_without_an_event_loop_the_middle_is_cut() -> None:
    state = agent("shout", ToolOutputConfig()).invoke({"messages": [("user", "go")]})
    assert len(result(state).text) < 11_100


async def test_a_large_result_goes_to_a_file_the_model_is_told_of(tmp_path: Path) -> None:
    files = thread_files(tmp_path)
    message = result(await run("shout", files))
    path = next(word for word in message.text.split() if word.startswith("/mnt/user-data/outputs/.tool-results/shout-"))
    assert await files.read(path.rstrip(".")) == LARGE.encode()
    assert len(message.text) < 3500
    assert "begin xxx" in message.text and "xxx end" in message.text


async def test_a_result_that_changes_the_state_is_shortened_too(tmp_path: Path) -> None:
    state = await run("publish", thread_files(tmp_path))
    assert len(result(state).text) < 3500
    assert state["title"] == "new"


@pytest.mark.parametrize("tool", ["whisper", "read_file", "draw"])
async def test_small_exempt_and_pictured_results_stay_as_they_are(tool: str, tmp_path: Path) -> None:
    files = thread_files(tmp_path)
    message = result(await run(tool, files))
    assert "left out" not in str(message.content)
    assert await files.list("/mnt/user-data/outputs") == []


async def test_single_tools_may_have_their_own_limit(tmp_path: Path) -> None:
    settings = ToolOutputConfig(tool_overrides={"shout": 100_000})
    message = result(await run("shout", thread_files(tmp_path), settings))
    assert message.text == LARGE


async def test_switched_off_nothing_is_touched(tmp_path: Path) -> None:
    assert result(await run("shout", thread_files(tmp_path), ToolOutputConfig(enabled=False))).text == LARGE
