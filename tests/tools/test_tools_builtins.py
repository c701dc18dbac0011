"""The built-in tools, called by a model in a real graph."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool

from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.thread_state import ThreadState
from deerflow.config.agents import CustomAgent, CustomAgentConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import Conflict, FileProblem, InvalidRequest
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE
from deerflow.testing import ScriptedModel, calling
from deerflow.testing.turns import Answer
from deerflow.tools.builtins.agent_tools import setup_agent_tool, update_agent_tool
from deerflow.tools.builtins.view_image_tool import MAX_IMAGE_BYTES
from deerflow.tools.run import NoRunContext
from deerflow.tools.tools import builtin_tools
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
    """The state after a model made one call."""
    graph = create_agent(
        ScriptedModel.saying(request, "Done"), tools, state_schema=ThreadState, context_schema=RunContext
    )
    state: dict[str, Any] = await graph.ainvoke({"messages": [("user", "go")]}, context=run)
    return state


async def use(run: RunContext | None, request: Answer) -> dict[str, Any]:
    return await call(run, list(builtin_tools(supports_vision=True)), request)


def said(state: dict[str, Any]) -> str:
    return str(state["messages"][2].content)


async def test_files_that_are_not_outputs_or_not_there_are_not_presented(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    await run.files.write(f"{WORKSPACE}/draft.md", b"x")
    for path, text in [
        (f"{WORKSPACE}/draft.md", "is not below /mnt/user-data/outputs; copy it there first"),
        (f"{OUTPUTS}/none.md", "there is no such file"),
        (f"{OUTPUTS}/../workspace/draft.md", "goes up with"),
        ("/etc/passwd", "copy it there first"),
    ]:
        with pytest.raises(FileProblem, match=text):
            await use(run, calling("present_files", filepaths=[path]))
    with pytest.raises(FileProblem, match="at least one"):
        await use(run, calling("present_files", filepaths=[]))


async def test_what_can_be_presented_is_and_what_cannot_is_named(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    await run.files.write(f"{OUTPUTS}/a.md", b"x")
    await run.files.write(f"{OUTPUTS}/two\nlines.md", b"x")
    paths = [f"{OUTPUTS}/a.md", f"{OUTPUTS}//a.md", f"{OUTPUTS}/none.md", f"{OUTPUTS}/two\nlines.md"]
    state = await use(run, calling("present_files", filepaths=paths))
    assert set(state["artifacts"]) == {f"{OUTPUTS}/a.md", f"{OUTPUTS}/two\nlines.md"}
    assert "Presented: /mnt/user-data/outputs/a.md" in said(state)
    assert "two\\nlines.md" in said(state)
    assert "Not presented: '/mnt/user-data/outputs/none.md' cannot be used: there is no such file" in said(state)


@pytest.mark.parametrize("name", PICTURES)
async def test_an_image_is_known_by_its_content_and_not_by_its_name(tmp_path: Path, name: str) -> None:
    content, mime_type = PICTURES[name]
    run = run_in(tmp_path)
    await run.files.write(f"{UPLOADS}/{name}", content)
    state = await use(run, calling("view_image", image_path=f"{UPLOADS}/{name}"))
    assert state["viewed_images"] == {f"{UPLOADS}/{name}": {"mime_type": mime_type, "size": len(content)}}


async def test_what_is_no_image_or_too_large_is_not_viewed(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    await run.files.write(f"{UPLOADS}/fake.png", b"<svg/>")
    await run.files.write(f"{UPLOADS}/empty.png", b"")
    await run.files.write(f"{UPLOADS}/large.png", PNG + bytes(MAX_IMAGE_BYTES))
    for name, text in [("fake.png", "is not a PNG"), ("empty.png", "is not a PNG"), ("large.png", "more than 20.0 MB")]:
        with pytest.raises(FileProblem, match=text):
            await use(run, calling("view_image", image_path=f"{UPLOADS}/{name}"))
    with pytest.raises(FileProblem, match="no such file"):
        await use(run, calling("view_image", image_path=f"{UPLOADS}/none.png"))


async def test_uploads_are_listed_one_per_line_and_a_long_list_is_cut(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    assert said(await use(run, calling("list_uploaded_files"))) == "The user has not uploaded any file."
    await run.files.write(f"{UPLOADS}/data.csv", bytes(2048))
    await run.files.write(f"{UPLOADS}/x\n- /etc/passwd (1 B)", b"")
    lines = said(await use(run, calling("list_uploaded_files"))).splitlines()
    assert sorted(lines) == [
        "- /mnt/user-data/uploads/data.csv (2.0 KB)",
        "- /mnt/user-data/uploads/x\\n- /etc/passwd (1 B) (0 B)",
    ]
    for number in range(110):
        await run.files.write(f"{UPLOADS}/{number}.txt", b"x")
    for wanted, left in (({}, 92), ({"max_results": 1000}, 12), ({"max_results": 0}, 111)):
        told = said(await use(run, calling("list_uploaded_files", **wanted)))
        assert told.endswith(f"… and {left} older ones in /mnt/user-data/uploads")


async def test_a_graph_without_a_run_says_what_is_missing() -> None:
    with pytest.raises(NoRunContext, match="context=RunContext"):
        await use(None, calling("list_uploaded_files"))


async def test_an_agent_is_set_up_by_conversation(tmp_path: Path) -> None:
    agents = CustomAgents(tmp_path)
    request = calling("setup_agent", soul="# Ada\nYou count.", description="Counts", skills=[])
    state = await call(run_in(tmp_path, "ada"), [setup_agent_tool(agents)], request)
    assert "'ada' is ready" in said(state)
    assert agents.load("local", "ada") == CustomAgent(
        "ada", CustomAgentConfig(description="Counts", skills=()), "# Ada\nYou count."
    )


async def test_an_agent_needs_a_name_a_soul_and_a_place_of_its_own(tmp_path: Path) -> None:
    tools = [setup_agent_tool(CustomAgents(tmp_path))]
    with pytest.raises(InvalidRequest, match="ask the user for one"):
        await call(run_in(tmp_path), tools, calling("setup_agent", soul="x", description=""))
    with pytest.raises(InvalidRequest, match="not 'a/b'"):
        await call(run_in(tmp_path), tools, calling("setup_agent", soul="x", description="", name="a/b"))
    with pytest.raises(InvalidRequest, match="`soul` is empty"):
        await call(run_in(tmp_path, "ada"), tools, calling("setup_agent", soul=" \n", description=""))
    await call(run_in(tmp_path), tools, calling("setup_agent", soul="x", description="", name="ada"))
    with pytest.raises(Conflict, match="choose another name"):
        await call(run_in(tmp_path), tools, calling("setup_agent", soul="y", description="", name="ada"))


async def test_an_agent_changes_only_what_it_names(tmp_path: Path) -> None:
    agents = CustomAgents(tmp_path)
    agents.create("local", CustomAgent("ada", CustomAgentConfig(description="Counts", model="gpt"), "You count."))
    run, tools = run_in(tmp_path, "ada"), [update_agent_tool(agents)]
    state = await call(run, tools, calling("update_agent", soul="You add.", tool_groups=["web"]))
    assert said(state) == "Changed: tool_groups, soul. It takes effect in the next run."
    expected = CustomAgentConfig(description="Counts", model="gpt", tool_groups=("web",))
    assert agents.load("local", "ada") == CustomAgent("ada", expected, "You add.")
    with pytest.raises(InvalidRequest, match="say what to change"):
        await call(run, tools, calling("update_agent"))
    with pytest.raises(InvalidRequest, match="not a custom agent"):
        await call(run_in(tmp_path), tools, calling("update_agent", soul="x"))
