"""Tests of tool names, elicitation forms, results and limits of MCP tools."""

from collections.abc import AsyncIterator

import httpx
import pytest
from mcp.types import AudioContent, CallToolResult, EmbeddedResource, ImageContent, TextContent, TextResourceContents

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError
from deerflow.mcp.session.calls import MAX_IMAGES, Elicitation, ElicitationReply, ServerAddress, to_result
from deerflow.mcp.session.transports import BoundedStream
from deerflow.mcp.tools import address_run, build_interrupt, make_tool_name, parse_reply

FORM = Elicitation(
    "?", {"properties": {"n": {"type": "integer"}, "c": {"enum": ["red", "blue"]}, "d": {"default": "x"}}}
)


def test_tool_names_are_valid_and_distinct() -> None:
    assert make_tool_name("my server", "get.thing/now") == "my_server_get_thing_now"
    assert make_tool_name("s", "echo", prefixed=False) == "echo"
    long = [make_tool_name("s", f"{'x' * 80}{number}") for number in range(3)]
    assert all(len(name) <= 64 for name in long) and len(set(long)) == 3


def test_form_is_filled_accepted_or_rejected() -> None:
    shown = build_interrupt("t", FORM)["action_requests"][0]["args"]
    assert shown == {"n": None, "c": None, "d": "x"}
    assert parse_reply(FORM, {"decisions": [{"type": "approve"}]}) == ElicitationReply("accept", {"d": "x"})
    edited = {"type": "edit", "edited_action": {"name": "t", "args": {"n": 2, "c": "blue", "odd": {"a": 1}}}}
    assert parse_reply(FORM, {"decisions": [edited]}) == ElicitationReply("accept", {"n": 2, "c": "blue", "d": "x"})
    assert parse_reply(FORM, {"decisions": [{"type": "reject", "message": "no"}]}) == ElicitationReply("decline")
    assert parse_reply(FORM, "what?") == ElicitationReply("cancel")
    link = Elicitation("log in", url="https://example.org")
    assert build_interrupt("t", link)["action_requests"][0]["args"] == {"open": "https://example.org"}
    assert parse_reply(link, {"decisions": [{"type": "approve"}]}) == ElicitationReply("accept")


def test_fields_without_an_answer_are_not_made_up() -> None:
    fields = {"name": {"type": "string"}, "age": {"type": "integer"}, "colour": {"enum": ["red"], "default": "red"}}
    form = Elicitation("?", {"properties": fields, "required": ["name"]})
    asked = build_interrupt("t", form)
    assert asked["review_configs"][0]["allowed_decisions"] == ["edit", "reject"], "the name is missing"
    shown = asked["action_requests"][0]["args"]
    assert shown == {"name": None, "age": None, "colour": "red"}
    edited = {"type": "edit", "edited_action": {"name": "t", "args": {**shown, "name": "Ada", "colour": None}}}
    assert parse_reply(form, {"decisions": [edited]}) == ElicitationReply("accept", {"name": "Ada", "colour": "red"})
    complete = Elicitation("?", {"properties": {"colour": {"default": "red"}}, "required": ["colour"]})
    assert "approve" in build_interrupt("t", complete)["review_configs"][0]["allowed_decisions"]


def test_a_run_in_the_thread_of_another_person_uses_the_logins_of_the_person_who_starts_it() -> None:
    run = RunContext("t", "r", "bob", None, None, thread_owner="ann")  # type: ignore[arg-type]  # neither is used
    remote = McpServerConfig(type="http", url="https://example.org/mcp")
    program = McpServerConfig(type="stdio", command="notes")
    users = [address_run(ServerAddress("s", config, "key", "", None), run).user_id for config in (remote, program)]
    assert users == ["bob", "ann"], "programs work in the folders of the thread"


def test_results_are_limited() -> None:
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
async def test_aborts_response_with_a_too_large_message(chunks: list[bytes], is_events: bool, is_refused: bool) -> None:
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
    assert "request less at once" in str(problems[0])  # the first error is reported
