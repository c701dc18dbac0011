"""Results of MCP tools: each as structured data, and as text for models."""

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from mcp import types

from deerflow.domain.files import FileEntry
from deerflow.domain.threads import ThreadRecord
from deerflow.sandbox.file_access import ReadableFile
from deerflow.serving.turns import Turn
from deerflow.tools.builtins import detect_image_type

NEXT_STEPS = {
    "answered": None,
    "asks": "Call `ask` with this thread_id and the answer as prompt.",
    "needs_approval": "Show the calls to a person, then call `decide` with this thread_id and what they say.",
    "failed": "Nothing was lost: call `ask` with this thread_id to try again.",
    "stopped": "Call `ask` with this thread_id to go on.",
}


def format_turn(turn: Turn) -> types.CallToolResult:
    """Return the result of a turn."""
    waits = turn.ending == "needs_approval"
    calls = [call for question in turn.questions for call in list_waiting_calls(question)] if waits else []
    data = {
        "thread_id": turn.request.thread_id,
        "run_id": turn.run.run_id if turn.run else None,
        "status": turn.ending,
        "answer": turn.get_answer(),
        "error": turn.reader.failure if turn.ending == "failed" else None,
        "waiting_calls": calls,
        "how_to_go_on": NEXT_STEPS[turn.ending],
    }
    lines = [turn.get_answer(), data["error"], *(f"Waits for a word: {format_call(call)}" for call in calls)]
    lines += [data["how_to_go_on"], f"[thread_id: {turn.request.thread_id}, status: {turn.ending}]"]
    text = "\n\n".join(str(line) for line in lines if line)
    return make_result(data, text, is_error=turn.ending == "failed")


def list_waiting_calls(question: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the calls a paused run waits for."""
    return [{"name": each["name"], "args": each["args"]} for each in question["value"]["action_requests"]]


def format_call(call: Mapping[str, Any]) -> str:
    """Return a call in one line."""
    return f"{call['name']} {orjson.dumps(call['args'], default=str).decode()}"


def serialize_thread(thread: ThreadRecord) -> dict[str, object]:
    """Return a thread for a list."""
    return {
        "thread_id": thread.thread_id,
        "title": thread.title,
        "status": thread.status,
        "waits_for": thread.waits_for,
        "updated_at": thread.updated_at.isoformat(),
    }


def serialize_file(file: FileEntry) -> dict[str, object]:
    """Return a file for a list."""
    return {"path": file.path, "size": file.size, "modified_at": file.modified_at.isoformat()}


def read_content(file: ReadableFile, path: str, offset: int, length: int) -> types.CallToolResult:
    """Return a part of a file as text, image or base64. Blocks."""
    piece = file.read(offset, length)
    kind = guess_media_type(path, piece)
    data = {"path": path, "size": file.size, "offset": offset, "bytes": len(piece), "media_type": kind}
    is_whole = offset == 0 and len(piece) == file.size
    if is_whole and kind.startswith("image/") and detect_image_type(piece):
        image = types.ImageContent(type="image", data=base64.b64encode(piece).decode(), mimeType=kind)
        return types.CallToolResult(content=[image], structuredContent=data)
    text, encoding = decode_piece(piece, is_partial=not is_whole)
    return make_result({**data, "encoding": encoding, "content": text}, text)


def decode_piece(piece: bytes, *, is_partial: bool) -> tuple[str, str]:
    """Return bytes as text or base64, with the encoding. A part may be cut within a character."""
    try:
        return piece.decode(), "utf-8"
    except UnicodeDecodeError as problem:
        is_cut = is_partial and (problem.start >= len(piece) - 3 or problem.end <= 3)
        if is_cut and b"\0" not in piece:
            return piece.decode(errors="replace"), "utf-8"
    return base64.b64encode(piece).decode(), "base64"


def guess_media_type(path: str, beginning: bytes = b"") -> str:
    """Return the media type of a file."""
    return detect_image_type(beginning) or mimetypes.guess_type(path)[0] or "application/octet-stream"


def make_result(data: dict[str, Any], text: str | None = None, *, is_error: bool = False) -> types.CallToolResult:
    """Return a result with structured data and text."""
    shown = text if text is not None else orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=shown)]
    return types.CallToolResult(content=content, structuredContent=data, isError=is_error)
