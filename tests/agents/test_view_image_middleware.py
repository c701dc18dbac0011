"""Viewed images in the next model request."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.view_image_middleware import ViewImageMiddleware, image_blocks, last_viewed_images
from deerflow.domain.context import RunContext
from deerflow.domain.files import UPLOADS
from deerflow.testing import ScriptedModel, calling
from deerflow.testing.turns import in_parallel
from deerflow.tools.assembly import builtin_tools
from deerflow.tools.builtins import MAX_IMAGE_BYTES
from tests.runs_alone import run_in

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
GIF = b"GIF89a" + bytes(50)


def image_contents(content: Any) -> list[bytes]:
    return [block["base64"].encode() for block in content if isinstance(block, dict) and block["type"] == "image"]


async def test_images_are_only_in_the_next_request_and_never_in_the_state(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    await run.files.write(f"{UPLOADS}/a.png", PNG)
    await run.files.write(f"{UPLOADS}/b.gif", GIF)
    both = in_parallel(
        calling("view_image", image_path=f"{UPLOADS}/a.png"), calling("view_image", image_path=f"{UPLOADS}/b.gif")
    )
    model = ScriptedModel.saying(both, calling("list_uploaded_files"), "A dot and a line.")
    graph = create_agent(
        model,
        list(builtin_tools(supports_vision=True)),
        middleware=[ViewImageMiddleware()],
        state_schema=ThreadState,
        context_schema=RunContext,
    )
    state = await graph.ainvoke({"messages": [("user", "What is in them?")]}, context=run)
    shown = model.requests[1].messages[-1]
    assert isinstance(shown, HumanMessage) and shown.additional_kwargs == {"hide_from_ui": True}
    assert image_contents(shown.content) == [b64encode(PNG), b64encode(GIF)]
    assert "a.png" in shown.text and "b.gif" in shown.text
    assert not any(image_contents(message.content) for message in model.requests[2].messages)
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "tool", "ai", "tool", "ai"]


async def test_missing_or_changed_images_are_reported(tmp_path: Path) -> None:
    files = run_in(tmp_path).files
    await files.write(f"{UPLOADS}/changed.png", b"no image any more")
    await files.write(f"{UPLOADS}/large.png", PNG + bytes(MAX_IMAGE_BYTES - 1000))
    await files.write(f"{UPLOADS}/second.png", PNG + bytes(1000))
    paths = [f"{UPLOADS}/{name}.png" for name in ("none", "changed", "large", "second")]
    blocks = await image_blocks(files, paths)
    texts = [block["text"] for block in blocks if isinstance(block, dict) and block["type"] == "text"]
    assert "no such file" in texts[0]
    assert "changed.png' cannot be shown" in texts[1]
    assert "second.png' cannot be shown together with the others; view it alone" in texts[3]
    assert len(image_contents(blocks)) == 1


def test_only_successful_views_of_the_last_step_count() -> None:
    def tool_step(call_id: str, path: str, status: Any = "success", name: str = "view_image") -> list[Any]:
        call = tool_call(name=name, args={"image_path": path}, id=call_id)
        return [AIMessage("", tool_calls=[call]), ToolMessage("x", tool_call_id=call_id, status=status)]

    question = HumanMessage("look")
    hidden = HumanMessage("note", additional_kwargs={"hide_from_ui": True})
    assert last_viewed_images([]) == last_viewed_images([question]) == []
    assert last_viewed_images([question, *tool_step("1", "a"), *tool_step("2", "b")]) == ["b"]
    assert last_viewed_images([question, *tool_step("1", "a"), hidden]) == ["a"]
    assert last_viewed_images([question, *tool_step("1", "a"), question]) == []
    assert last_viewed_images([question, *tool_step("1", "a", status="error")]) == []
    assert last_viewed_images([question, *tool_step("1", "a", name="read_file")]) == []
    assert last_viewed_images([question, *tool_step("1", "a"), AIMessage("seen")]) == []


def test_without_a_run_no_images_are_added() -> None:
    model = ScriptedModel.saying("Hello")
    graph = create_agent(model, middleware=[ViewImageMiddleware()], state_schema=ThreadState)
    graph.invoke({"messages": [("user", "hi")], "viewed_images": {"a": {"mime_type": "image/png", "size": 1}}})
    assert len(model.requests[0].messages) == 1
