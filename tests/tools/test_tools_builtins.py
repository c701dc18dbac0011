"""Built-in tools, called by a model in a real graph."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agent_support.tools import NoRunContext
from deerflow.agents.custom_agents import CustomAgents
from deerflow.config.sections.agents import CustomAgent, CustomAgentConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import Conflict, FileProblem, InvalidRequest
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE
from deerflow.testing import ScriptedModel, calling
from deerflow.testing.turns import Answer
from deerflow.tools.assembly import builtin_tools
from deerflow.tools.builtins import MAX_IMAGE_BYTES, build_setup_agent_tool, build_update_agent_tool
from tests.runs_alone import run_in

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
PICTURES = {
    "a.png": (PNG, "image/png"),
    "b.jpg": (b"\xff\xd8\xff\xe0" + bytes(20), "image/jpeg"),
    "c.gif": (b"GIF89a" + bytes(20), "image/gif"),
    "d.webp": (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    "named-wrongly.txt": (PNG, "image/png"),
}


async def call(run: RunContext | None, tools: list[BaseTool], request: Answer) -> dict[str, Any]:
    """Run a graph in which the model makes one call, and return the state."""
    graph = create_agent(
        ScriptedModel.saying(request, "Done"), tools, state_schema=ThreadState, context_schema=RunContext
    )
    state: dict[str, Any] = await graph.ainvoke({"messages": [("user", "go")]}, context=run)
    return state


async def use(run: RunContext | None, request: Answer) -> dict[str, Any]:
    return await call(run, list(builtin_tools(supports_vision=True)), request)


def tool_result(state: dict[str, Any]) -> str:
    return str(state["messages"][2].content)


async def test_refuses_files_outside_outputs_and_missing_files(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    await run.files.write(f"{WORKSPACE}/draft.md", b"x")
    for path, text in [
        (f"{WORKSPACE}/draft.md", "is not below /mnt/user-data/outputs; copy it there first"),
        (f"{OUTPUTS}/none.md", "there is no such file"),
        (f"{OUTPUTS}/../workspace/draft.md", "must not contain"),
        ("/etc/passwd", "copy it there first"),
    ]:
        with pytest.raises(FileProblem, match=text):
            await use(run, calling("present_files", filepaths=[path]))
    with pytest.raises(FileProblem, match="at least one"):
        await use(run, calling("present_files", filepaths=[]))


async def test_presents_valid_files_and_names_refused_ones(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    await run.files.write(f"{OUTPUTS}/a.md", b"x")
    await run.files.write(f"{OUTPUTS}/two\nlines.md", b"x")
    paths = [f"{OUTPUTS}/a.md", f"{OUTPUTS}//a.md", f"{OUTPUTS}/none.md", f"{OUTPUTS}/two\nlines.md"]
    state = await use(run, calling("present_files", filepaths=paths))
    assert set(state["artifacts"]) == {f"{OUTPUTS}/a.md", f"{OUTPUTS}/two\nlines.md"}
    assert "Presented: /mnt/user-data/outputs/a.md" in tool_result(state)
    assert "two\\nlines.md" in tool_result(state)
    assert "Not presented: '/mnt/user-data/outputs/none.md' cannot be used: there is no such file" in tool_result(state)


@pytest.mark.parametrize("name", PICTURES)
async def test_detects_image_type_by_content(tmp_path: Path, name: str) -> None:
    content, mime_type = PICTURES[name]
    run = run_in(tmp_path)
    await run.files.write(f"{UPLOADS}/{name}", content)
    state = await use(run, calling("view_image", image_path=f"{UPLOADS}/{name}"))
    assert state["viewed_images"] == {f"{UPLOADS}/{name}": {"mime_type": mime_type, "size": len(content)}}


async def test_refuses_non_images_and_large_images(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    await run.files.write(f"{UPLOADS}/fake.png", b"<svg/>")
    await run.files.write(f"{UPLOADS}/empty.png", b"")
    await run.files.write(f"{UPLOADS}/large.png", PNG + bytes(MAX_IMAGE_BYTES))
    for name, text in [("fake.png", "is not a PNG"), ("empty.png", "is not a PNG"), ("large.png", "more than 20.0 MB")]:
        with pytest.raises(FileProblem, match=text):
            await use(run, calling("view_image", image_path=f"{UPLOADS}/{name}"))
    with pytest.raises(FileProblem, match="no such file"):
        await use(run, calling("view_image", image_path=f"{UPLOADS}/none.png"))


async def test_lists_uploads_and_truncates_long_lists(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    assert tool_result(await use(run, calling("list_uploaded_files"))) == "The user has not uploaded any file."
    await run.files.write(f"{UPLOADS}/data.csv", bytes(2048))
    await run.files.write(f"{UPLOADS}/x\n- /etc/passwd (1 B)", b"")
    lines = tool_result(await use(run, calling("list_uploaded_files"))).splitlines()
    assert sorted(lines) == [
        "- /mnt/user-data/uploads/data.csv (2.0 KB)",
        "- /mnt/user-data/uploads/x\\n- /etc/passwd (1 B) (0 B)",
    ]
    for number in range(110):
        await run.files.write(f"{UPLOADS}/{number}.txt", b"x")
    for wanted, left in (({}, 92), ({"max_results": 1000}, 12), ({"max_results": 0}, 111)):
        result = tool_result(await use(run, calling("list_uploaded_files", **wanted)))
        assert result.endswith(f"… and {left} older ones in /mnt/user-data/uploads")


async def test_missing_run_context_is_reported() -> None:
    with pytest.raises(NoRunContext, match="context=RunContext"):
        await use(None, calling("list_uploaded_files"))


async def test_setup_agent_creates_an_agent(tmp_path: Path) -> None:
    agents = CustomAgents(tmp_path)
    request = calling("setup_agent", soul="# Ada\nYou count.", description="Counts", skills=[])
    state = await call(run_in(tmp_path, "ada"), [build_setup_agent_tool(agents)], request)
    assert "'ada' is ready" in tool_result(state)
    assert agents.load("local", "ada") == CustomAgent(
        "ada", CustomAgentConfig(description="Counts", skills=()), "# Ada\nYou count."
    )


async def test_setup_agent_requires_a_free_name_and_a_soul(tmp_path: Path) -> None:
    tools = [build_setup_agent_tool(CustomAgents(tmp_path))]
    with pytest.raises(InvalidRequest, match="ask the user for one"):
        await call(run_in(tmp_path), tools, calling("setup_agent", soul="x", description=""))
    with pytest.raises(InvalidRequest, match="not 'a/b'"):
        await call(run_in(tmp_path), tools, calling("setup_agent", soul="x", description="", name="a/b"))
    with pytest.raises(InvalidRequest, match="`soul` is empty"):
        await call(run_in(tmp_path, "ada"), tools, calling("setup_agent", soul=" \n", description=""))
    await call(run_in(tmp_path), tools, calling("setup_agent", soul="x", description="", name="ada"))
    with pytest.raises(Conflict, match="choose another name"):
        await call(run_in(tmp_path), tools, calling("setup_agent", soul="y", description="", name="ada"))


async def test_update_agent_changes_only_given_fields(tmp_path: Path) -> None:
    agents = CustomAgents(tmp_path)
    agents.create("local", CustomAgent("ada", CustomAgentConfig(description="Counts", model="gpt"), "You count."))
    run, tools = run_in(tmp_path, "ada"), [build_update_agent_tool(agents)]
    state = await call(run, tools, calling("update_agent", soul="You add.", tool_groups=["web"]))
    assert tool_result(state) == "Changed: tool_groups, soul. It takes effect in the next run."
    expected = CustomAgentConfig(description="Counts", model="gpt", tool_groups=("web",))
    assert agents.load("local", "ada") == CustomAgent("ada", expected, "You add.")
    with pytest.raises(InvalidRequest, match="say what to change"):
        await call(run, tools, calling("update_agent"))
    with pytest.raises(InvalidRequest, match="not a custom agent"):
        await call(run_in(tmp_path), tools, calling("update_agent", soul="x"))
