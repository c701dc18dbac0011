"""Conversion between ACP content and our messages: prompts, and session updates for an editor."""

import base64
import binascii
import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import (
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.helpers import ContentBlock, SessionUpdate, ToolCallContentVariant
from acp.schema import (
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    PlanEntryStatus,
    ResourceContentBlock,
    SessionInfoUpdate,
    TextContentBlock,
    TextResourceContents,
    ToolCallLocation,
    ToolCallUpdate,
    ToolKind,
)

from deerflow.domain.errors import InvalidRequest
from deerflow.runtime.journal.serialization import CLARIFICATION_TOOL, extract_text
from deerflow.serving.acp_projects import EditorProject
from deerflow.serving.turns import (
    PlanUpdated,
    TextDelta,
    TitleChanged,
    ToolCallStarted,
    ToolFinished,
    ToolProgressed,
    TurnEvent,
)

TOOL_KINDS: Mapping[str, ToolKind] = MappingProxyType(
    {
        "read_file": "read",
        "ls": "read",
        "view_image": "read",
        "list_uploaded_files": "read",
        "write_file": "edit",
        "str_replace": "edit",
        "glob": "search",
        "grep": "search",
        "web_search": "search",
        "image_search": "search",
        "search_history": "search",
        "bash": "execute",
        "web_fetch": "fetch",
        "task": "think",
    }
)
HIDDEN_TOOLS = frozenset({CLARIFICATION_TOOL, "write_todos"})
"""Tools shown otherwise: questions as messages, todo lists as plans."""
STATUSES: Mapping[str, PlanEntryStatus] = MappingProxyType({"in_progress": "in_progress", "completed": "completed"})
TITLE_ARGUMENTS = ("description", "path", "command", "query", "url", "agent")
MAX_RESULT_CHARS = 20_000
MAX_PROGRESS_CHARS = 8_000
MAX_TITLE_CHARS = 120


@dataclass(slots=True)
class SessionUpdateWriter:
    """Converts turn events to session updates."""

    project: EditorProject
    open_calls: dict[str, ToolCallStarted] = field(default_factory=dict)
    """Calls without a result."""
    _progress: dict[str, str] = field(default_factory=dict)

    def to_updates(self, event: TurnEvent) -> Iterator[SessionUpdate]:
        """Yield the updates for an event."""
        match event:
            case TextDelta(text=text, is_thought=is_thought):
                yield update_agent_thought_text(text) if is_thought else update_agent_message_text(text)
            case ToolCallStarted():
                yield from self._start_call(event)
            case ToolProgressed():
                yield from self._update_progress(event)
            case ToolFinished():
                yield from self._finish_call(event)
            case PlanUpdated(todos=todos):
                entries = [(each["content"], STATUSES.get(each["status"], "pending")) for each in todos]
                yield update_plan([plan_entry(content, status=status) for content, status in entries])
            case TitleChanged(title=title):
                yield SessionInfoUpdate(session_update="session_info_update", title=title)

    def close(self) -> Iterator[SessionUpdate]:
        """Yield updates that mark calls without a result as failed."""
        for call_id in self.open_calls:
            yield update_tool_call(call_id, status="failed")
        self.open_calls.clear()

    def find_call(self, name: str, arguments: Mapping[str, Any]) -> ToolCallUpdate:
        """Return the call a paused run waits for."""
        wanted = ToolCallStarted(f"waits-{name}", name, arguments)
        same = (call for call in self.open_calls.values() if (call.tool, call.arguments) == (name, arguments))
        call = next(same, wanted)
        return ToolCallUpdate(
            tool_call_id=call.call_id,
            title=format_title(call),
            kind=TOOL_KINDS.get(name, "other"),
            status="pending",
            content=self._list_diffs(call) or None,
            locations=self._list_locations(call),
            raw_input=dict(arguments),
        )

    def _start_call(self, call: ToolCallStarted) -> Iterator[SessionUpdate]:
        if call.tool in HIDDEN_TOOLS:
            return
        self.open_calls[call.call_id] = call
        yield start_tool_call(
            call.call_id,
            format_title(call),
            kind=TOOL_KINDS.get(call.tool, "other"),
            status="in_progress",
            content=self._list_diffs(call) or None,
            locations=self._list_locations(call),
            raw_input=dict(call.arguments),
        )

    def _update_progress(self, progress: ToolProgressed) -> Iterator[SessionUpdate]:
        if progress.call_id not in self.open_calls:
            return
        text = (self._progress.get(progress.call_id, "") + progress.text)[-MAX_PROGRESS_CHARS:]
        self._progress[progress.call_id] = text
        yield update_tool_call(progress.call_id, status="in_progress", content=[tool_content(text_block(text))])

    def _finish_call(self, result: ToolFinished) -> Iterator[SessionUpdate]:
        call = self.open_calls.pop(result.call_id, None)
        self._progress.pop(result.call_id, None)
        if call is None:
            return
        content_block = tool_content(text_block(result.text[:MAX_RESULT_CHARS]))
        content = [content_block] if result.has_failed else [*self._list_diffs(call), content_block]
        yield update_tool_call(
            result.call_id, status="failed" if result.has_failed else "completed", content=content or None
        )

    def _list_diffs(self, call: ToolCallStarted) -> list[ToolCallContentVariant]:
        """Return the file changes of a call."""
        given = call.arguments
        path = self.project.to_host_path(str(given.get("path", "")))
        if call.tool == "str_replace" and "old_str" in given:
            return [tool_diff_content(path, str(given.get("new_str", "")), str(given["old_str"]))]
        if call.tool == "write_file" and "content" in given and not given.get("append"):
            return [tool_diff_content(path, str(given["content"]))]
        return []

    def _list_locations(self, call: ToolCallStarted) -> list[ToolCallLocation] | None:
        path = call.arguments.get("path") or call.arguments.get("image_path")
        return [ToolCallLocation(path=self.project.to_host_path(path))] if isinstance(path, str) else None


def format_title(call: ToolCallStarted) -> str:
    """Return a short title of a call."""
    subject = next((str(call.arguments[key]) for key in TITLE_ARGUMENTS if call.arguments.get(key)), "")
    return f"{call.tool}: {subject}"[:MAX_TITLE_CHARS] if subject else call.tool


PROJECT_NOTE = "\n\n<project>"
"""Start of the project note that is appended to a message."""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """File in a prompt."""

    name: str
    content: bytes


PromptPart = str | AttachedFile


def parse_prompt(prompt: Sequence[ContentBlock], project: EditorProject) -> list[PromptPart]:
    """Return a prompt as texts and files; project files are named by their sandbox paths.

    Raises:
        InvalidRequest: A block is not supported, or the prompt is empty.
    """
    parts = [parse_block(block, project) for block in prompt]
    if not any(part.strip() if isinstance(part, str) else True for part in parts):
        raise InvalidRequest("the prompt is empty")
    return parts


def parse_block(block: ContentBlock, project: EditorProject) -> PromptPart:
    """Return one part of a prompt."""
    match block:
        case TextContentBlock(text=text):
            return text
        case ResourceContentBlock(name=name, uri=uri):
            return f"[{name}]({project.to_sandbox_path(uri)})"
        case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
            return f'\n<file path="{project.to_sandbox_path(uri)}">\n{text}\n</file>\n'
        case EmbeddedResourceContentBlock(resource=BlobResourceContents(uri=uri, blob=blob)):
            return AttachedFile(PurePosixPath(unquote(urlsplit(uri).path)).name or "file", decode_base64(blob))
        case ImageContentBlock(data=data, mime_type=kind):
            return AttachedFile(f"image{mimetypes.guess_extension(kind) or ''}", decode_base64(data))
    raise InvalidRequest(f"unsupported content block {block.type!r}; use text, images and files")


def decode_base64(data: str) -> bytes:
    """Return decoded base64.

    Raises:
        InvalidRequest: It is not valid base64.
    """
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("an image or file in the prompt is not valid base64") from None


def replay_messages(messages: Sequence[Mapping[str, Any]], writer: SessionUpdateWriter) -> Iterator[SessionUpdate]:
    """Yield the updates for the messages of a thread."""
    for message in messages:
        if message["additional_kwargs"].get("hide_from_ui"):
            continue
        text = extract_text(message["content"])
        if message["type"] == "human":
            yield update_user_message_text(text.partition(PROJECT_NOTE)[0])
        elif message["type"] == "ai":
            yield from writer.to_updates(TextDelta(text)) if text else ()
            for call in message["tool_calls"]:
                yield from writer.to_updates(ToolCallStarted(call["id"], call["name"], call["args"]))
        elif message["type"] == "tool":
            failed = message["status"] == "error"
            yield from writer.to_updates(ToolFinished(message["tool_call_id"], message["name"] or "", text, failed))
