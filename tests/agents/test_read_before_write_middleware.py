"""Files must be read before they are changed."""

from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.tool_calls import ReadBeforeWriteMiddleware
from deerflow.domain.context import RunContext
from deerflow.sandbox.files.files import thread_files
from deerflow.testing import Answer, ScriptedModel, calling
from tests.agents.support import EmptyHistory

FILE = "/mnt/user-data/workspace/plan.txt"
READ = calling("read_file", path=FILE)
WRITE = calling("write_file", path=FILE, content="new")
APPEND = calling("write_file", path=FILE, content="!", append=True)
EDIT = calling("str_replace", path=FILE, old_str="old", new_str="new")
CHANGE_OUTSIDE = calling("meddle")


async def read_file(path: str, runtime: ToolRuntime[RunContext]) -> str:
    """Read."""
    return (await runtime.context.files.read(path)).decode()


async def write_file(path: str, content: str, runtime: ToolRuntime[RunContext], append: bool = False) -> str:
    """Write."""
    before = await runtime.context.files.read(path) if append else b""
    await runtime.context.files.write(path, before + content.encode())
    return "OK"


async def str_replace(path: str, old_str: str, new_str: str, runtime: ToolRuntime[RunContext]) -> str:
    """Edit."""
    text = (await runtime.context.files.read(path)).decode()
    if old_str not in text:
        return "Error: not found"
    await runtime.context.files.write(path, text.replace(old_str, new_str).encode())
    return "OK"


async def meddle(runtime: ToolRuntime[RunContext]) -> str:
    """Change the file behind the model's back."""
    await runtime.context.files.write(FILE, b"old but meddled with")
    return "OK"


async def run_calls(tmp_path: Path, *calls: Answer, content: bytes | None = b"old") -> list[str]:
    files = thread_files(tmp_path)
    if content is not None:
        await files.write(FILE, content)
    graph = create_agent(
        ScriptedModel.saying(*calls, "done"),
        [read_file, write_file, str_replace, meddle],
        middleware=[ReadBeforeWriteMiddleware()],
        state_schema=ThreadState,
        context_schema=RunContext,
    )
    context = RunContext("t", "r", "u", files, EmptyHistory())
    state = await graph.ainvoke({"messages": [("user", "go")]}, context=context)  # type: ignore[list-item]
    return [message.text for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("change", [WRITE, EDIT])
async def test_an_unread_file_is_not_changed(tmp_path: Path, change: Answer) -> None:
    refused = await run_calls(tmp_path, change)
    assert refused == [
        f"Error: {FILE} exists and you have not read it. Read it with `read_file` first, then change it."
    ]
    assert await thread_files(tmp_path).read(FILE) == b"old"


@pytest.mark.parametrize("change", [WRITE, EDIT])
async def test_a_file_that_changed_since_reading_is_not_changed(tmp_path: Path, change: Answer) -> None:
    assert "has changed since you last read it" in (await run_calls(tmp_path, READ, CHANGE_OUTSIDE, change))[-1]


async def test_a_failed_edit_does_not_count_as_reading(tmp_path: Path) -> None:
    failing_edit = calling("str_replace", path=FILE, old_str="absent", new_str="x")
    assert (await run_calls(tmp_path, READ, failing_edit, CHANGE_OUTSIDE, EDIT))[-1].startswith("Error:")


async def test_a_read_file_may_be_changed_repeatedly(tmp_path: Path) -> None:
    revert = calling("str_replace", path=FILE, old_str="new", new_str="old")
    assert await run_calls(tmp_path, READ, EDIT, revert, WRITE) == ["old", "OK", "OK", "OK"]


async def test_new_files_and_appends_need_no_reading(tmp_path: Path) -> None:
    assert await run_calls(tmp_path, WRITE, WRITE, content=None) == ["OK", "OK"]
    assert await run_calls(tmp_path, APPEND) == ["OK"]


async def test_a_file_must_be_read_again_after_an_append(tmp_path: Path) -> None:
    assert "has changed" in (await run_calls(tmp_path, READ, APPEND, WRITE))[-1]
