"""What programs are told over MCP: each answer as data, and as text for a model that reads no data."""

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from mcp import types

from deerflow.domain.files import FileEntry
from deerflow.domain.threads import ThreadRecord
from deerflow.sandbox.opened import Readable
from deerflow.serving.turns import Turn
from deerflow.tools.builtins.view_image_tool import recognise

HOW_TO_GO_ON = {
    "answered": None,
    "asks": "Call `ask` with this thread_id and the answer as prompt.",
    "needs_approval": "Show the calls to a person, then call `decide` with this thread_id and what they say.",
    "failed": "Nothing was lost: call `ask` with this thread_id to try again.",
    "stopped": "Call `ask` with this thread_id to go on.",
}


def told_of_turn(turn: Turn) -> types.CallToolResult:
    """How a turn ended."""
    waits = turn.ending == "needs_approval"
    calls = [call for question in turn.questions for call in waiting_calls(question)] if waits else []
    told = {
        "thread_id": turn.request.thread_id,
        "run_id": turn.run.run_id if turn.run else None,
        "status": turn.ending,
        "answer": turn.asked(),
        "error": turn.listener.failure if turn.ending == "failed" else None,
        "waiting_calls": calls,
        "how_to_go_on": HOW_TO_GO_ON[turn.ending],
    }
    lines = [turn.asked(), told["error"], *(f"Waits for a word: {described(call)}" for call in calls)]
    lines += [told["how_to_go_on"], f"[thread_id: {turn.request.thread_id}, status: {turn.ending}]"]
    text = "\n\n".join(str(line) for line in lines if line)
    return with_data(told, text, is_error=turn.ending == "failed")


def waiting_calls(question: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The calls a paused run waits with."""
    return [{"name": each["name"], "args": each["args"]} for each in question["value"]["action_requests"]]


def described(call: Mapping[str, Any]) -> str:
    """A call in a line."""
    return f"{call['name']} {orjson.dumps(call['args'], default=str).decode()}"


def shown_thread(thread: ThreadRecord) -> dict[str, object]:
    """A thread in a list."""
    return {
        "thread_id": thread.thread_id,
        "title": thread.title,
        "status": thread.status,
        "waits_for": thread.waits_for,
        "updated_at": thread.updated_at.isoformat(),
    }


def shown_file(file: FileEntry) -> dict[str, object]:
    """A file in a list."""
    return {"path": file.path, "size": file.size, "modified_at": file.modified_at.isoformat()}


def content_of(file: Readable, path: str, offset: int, length: int) -> types.CallToolResult:
    """A piece of a file as its kind can be shown; blocks."""
    piece = file.read(offset, length)
    kind = media_type(path, piece)
    told = {"path": path, "size": file.size, "offset": offset, "bytes": len(piece), "media_type": kind}
    is_whole = offset == 0 and len(piece) == file.size
    if is_whole and kind.startswith("image/") and recognise(piece):
        image = types.ImageContent(type="image", data=base64.b64encode(piece).decode(), mimeType=kind)
        return types.CallToolResult(content=[image], structuredContent=told)
    text, encoding = as_text(piece, at_edge=not is_whole)
    return with_data({**told, "encoding": encoding, "content": text}, text)


def as_text(piece: bytes, *, at_edge: bool) -> tuple[str, str]:
    """Bytes as text, or as base64; a piece of a file may begin and end within a character."""
    try:
        return piece.decode(), "utf-8"
    except UnicodeDecodeError as problem:
        is_cut = at_edge and (problem.start >= len(piece) - 3 or problem.end <= 3)
        if is_cut and b"\0" not in piece:
            return piece.decode(errors="replace"), "utf-8"
    return base64.b64encode(piece).decode(), "base64"


def media_type(path: str, beginning: bytes = b"") -> str:
    """What kind of file it is."""
    return recognise(beginning) or mimetypes.guess_type(path)[0] or "application/octet-stream"


def with_data(data: dict[str, Any], text: str | None = None, *, is_error: bool = False) -> types.CallToolResult:
    """An answer as data and as text."""
    shown = text if text is not None else orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=shown)]
    return types.CallToolResult(content=content, structuredContent=data, isError=is_error)
