"""The small parts: names, forms, results, bounds, and what a program needs to see of itself."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from mcp.types import AudioContent, CallToolResult, EmbeddedResource, ImageContent, TextContent, TextResourceContents

from deerflow.domain.errors import DeerFlowError, SandboxError
from deerflow.mcp.asking import question_payload, read_reply
from deerflow.mcp.calls import Question, Reply
from deerflow.mcp.http import BoundedStream
from deerflow.mcp.names import tool_name
from deerflow.mcp.results import MAX_IMAGES, to_result
from deerflow.sandbox.local.programs import needed_paths

FORM = Question("?", {"properties": {"n": {"type": "integer"}, "c": {"enum": ["red", "blue"]}, "d": {"default": "x"}}})


def test_names_fit_every_vendor_and_stay_different() -> None:
    assert tool_name("my server", "get.thing/now") == "my_server_get_thing_now"
    assert tool_name("s", "echo", prefixed=False) == "echo"
    long = [tool_name("s", f"{'x' * 80}{number}") for number in range(3)]
    assert all(len(name) <= 64 for name in long) and len(set(long)) == 3


def test_a_form_is_filled_taken_as_it_is_or_rejected() -> None:
    shown = question_payload("t", FORM)["action_requests"][0]["args"]
    assert shown == {"n": 0, "c": "red", "d": "x"}
    assert read_reply(FORM, {"decisions": [{"type": "approve"}]}) == Reply("accept", shown)
    edited = {"type": "edit", "edited_action": {"name": "t", "args": {"n": 2, "c": "blue", "odd": {"a": 1}}}}
    assert read_reply(FORM, {"decisions": [edited]}) == Reply("accept", {"n": 2, "c": "blue"})
    assert read_reply(FORM, {"decisions": [{"type": "reject", "message": "no"}]}) == Reply("decline")
    assert read_reply(FORM, "what?") == Reply("cancel")
    link = Question("log in", url="https://example.org")
    assert question_payload("t", link)["action_requests"][0]["args"] == {"open": "https://example.org"}
    assert read_reply(link, {"decisions": [{"type": "approve"}]}) == Reply("accept")


def test_results_are_kept_within_limits() -> None:
    images = [ImageContent(type="image", data="aGk=", mimeType="image/png") for _ in range(MAX_IMAGES + 2)]
    words = TextContent(type="text", text="x" * 50_000)
    result = to_result(CallToolResult(content=[*images, words]))
    assert sum(block["type"] == "image" for block in result.blocks) == MAX_IMAGES
    assert len(result.blocks[-1]["text"]) < 21_000
    odd = [
        AudioContent(type="audio", data="aGk=", mimeType="audio/wav"),
        ImageContent(type="image", data="aGk=", mimeType="image/svg+xml"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a", text="words")),  # type: ignore[arg-type]
    ]
    texts = [block["text"] for block in to_result(CallToolResult(content=odd)).blocks]
    assert "audio" in texts[0] and "svg" in texts[1] and texts[2] == "[resource file:///a]\nwords"
    assert to_result(CallToolResult(content=[])).blocks[0]["text"] == "(the tool said nothing)"
    assert to_result(CallToolResult(content=[], structuredContent={"a": 1})).blocks[0]["text"] == '{"a": 1}'


@pytest.mark.parametrize(
    ("chunks", "is_events", "is_refused"),
    [
        ([b"x" * 60, b"x" * 60], False, True),
        ([b"data: x\n\n" * 30], True, False),
        ([b"data: " + b"x" * 50, b"\r\n\r", b"\ndata: " + b"x" * 60], True, False),
        ([b"data: x\n" * 30], True, True),
    ],
)
async def test_an_answer_is_broken_off_when_one_message_is_too_large(
    chunks: list[bytes], is_events: bool, is_refused: bool
) -> None:
    class Chunks(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

    problems: list[DeerFlowError] = []
    stream = BoundedStream(Chunks(), 100, problems.append, is_events=is_events)
    if not is_refused:
        assert [chunk async for chunk in stream] == chunks
        return
    with pytest.raises(httpx.ReadError):
        [chunk async for chunk in stream]
    assert "which was refused" in str(problems[0])  # the first is what people are told


def test_a_program_is_shown_with_the_folder_it_was_installed_in(tmp_path: Path) -> None:
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text(f"home = {tmp_path}/python/bin\n")
    (environment / "bin" / "serve").touch(mode=0o755)
    package = tmp_path / "app" / "node_modules" / "pkg" / "index.js"
    package.parent.mkdir(parents=True)
    package.touch()
    (tmp_path / "app" / "node_modules" / ".bin").mkdir()
    linked = tmp_path / "app" / "node_modules" / ".bin" / "serve"
    linked.symlink_to(package)
    data = tmp_path / "data"
    data.mkdir()

    def needed(program: str, *extra: Path) -> list[Path]:
        return needed_paths([program, "--x"], extra, ["/usr/bin"], str(environment / "bin"))[1]

    assert needed(str(environment / "bin" / "serve")) == [environment, tmp_path / "python"]
    assert needed("serve", data) == [data, environment, tmp_path / "python"]
    assert needed(str(linked)) == [tmp_path / "app" / "node_modules"]
    assert needed("env") == []
    with pytest.raises(SandboxError, match="no program"):
        needed("/nowhere/serve")
    with pytest.raises(SandboxError, match="correct 'paths'"):
        needed("env", tmp_path / "missing")
