"""Middleware that shows the model the files attached to messages.

Stored messages are not changed. The list is built for each request from the message alone, never from the disk, so a
message looks the same in every request and the prompt cache stays valid. The conversion status of documents is resolved
once, before the model first sees a message, and stored with it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.types import Command
from pydantic import TypeAdapter, ValidationError

from deerflow.agent_support.replies import AsyncModelHandler, ModelHandler, Reply, Request, is_user_message
from deerflow.agent_support.thread_state import ThreadState
from deerflow.agent_support.tools import escape_line, format_size
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.files import UPLOADS, Outline, ThreadUploads, UploadedFile
from deerflow.uploads.tools import format_markdown_path, format_outline

MAX_SHOWN = 10
MAX_HEADINGS = 15
STATUS_KEY = "seen"
"""Key of the conversion status in entries of `additional_kwargs.files`."""
TEMPLATE = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip())


@dataclass(frozen=True, slots=True)
class UploadStatus:
    """Conversion status of a file when the model first saw it."""

    markdown_path: str | None = None
    note: str | None = None
    outline: Outline | None = None


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A file attached to a message."""

    path: str
    size: int | None = None
    status: UploadStatus | None = None

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


class UploadsMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds a list of attached files before each message, in the request only."""

    state_schema = ThreadState

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply | ExtendedModelResponse[Any]:
        return record_uploads(request, handler(add_file_lists(request)), ())

    async def awrap_model_call(
        self, request: Request, handler: AsyncModelHandler
    ) -> Reply | ExtendedModelResponse[Any]:
        resolved = await resolve_uploads(request)
        by_id = {message.id: message.additional_kwargs for message in resolved}
        messages = [
            message.model_copy(update={"additional_kwargs": by_id[message.id]}) if message.id in by_id else message
            for message in request.messages
        ]
        request = request.override(messages=messages) if resolved else request
        return record_uploads(request, await handler(add_file_lists(request)), resolved)


async def resolve_uploads(request: Request) -> Sequence[AnyMessage]:
    """Return the messages with unresolved files, with their conversion status added."""
    run = find_run_context(request.runtime.context) if request.runtime else None
    unresolved = [message for message in request.state["messages"] if message.id and has_unresolved_files(message)]
    if run is None or run.uploads is None or not unresolved:
        return ()
    return [await resolve_message(message, run.uploads) for message in unresolved]


def has_unresolved_files(message: AnyMessage) -> bool:
    """Return True if a message has files without a conversion status."""
    return any(upload.status is None for upload in get_uploads(message))


async def resolve_message(message: AnyMessage, uploads: ThreadUploads) -> AnyMessage:
    """Return `message` with the conversion status of its files. Waits for running conversions, within a limit."""
    names = [upload.path.removeprefix(f"{UPLOADS}/") for upload in get_uploads(message)]
    files_by_name = await uploads.wait_for_conversions(names)
    entries = [resolve_entry(entry, files_by_name) for entry in message.additional_kwargs["files"]]
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, "files": entries}})


def resolve_entry(entry: object, files_by_name: Mapping[str, UploadedFile]) -> object:
    """Return an entry of `additional_kwargs.files` with the conversion status."""
    parsed = next(parse_uploads([entry]), None)
    if parsed is None or not isinstance(entry, Mapping):
        return entry
    file = files_by_name.get(parsed.path.removeprefix(f"{UPLOADS}/"))
    status = (
        UploadStatus(file.markdown_path, file.note, file.outline)
        if file
        else UploadStatus(note="it is no longer there")
    )
    return {**entry, STATUS_KEY: STATUS_ADAPTER.dump_python(status, mode="json", exclude_none=True)}


def add_file_lists(request: Request) -> Request:
    """Return `request` with file lists. The same object is returned if no message has files."""
    if not any(map(get_uploads, request.messages)):
        return request
    return request.override(messages=list(map(add_file_list, request.messages)))


def record_uploads(
    request: Request, reply: Reply, resolved: Sequence[AnyMessage]
) -> Reply | ExtendedModelResponse[Any]:
    """Return `reply` with a state update for the files of the latest message and resolved messages, if needed."""
    latest = next(filter(is_user_message, reversed(request.messages)), None)
    files = [
        {"filename": upload.name, "size": upload.size, "path": upload.path}
        for upload in (get_uploads(latest) if latest else ())
    ]
    update: dict[str, Any] = {"messages": list(resolved)} if resolved else {}
    if files and request.state.get("uploaded_files") != files:
        update["uploaded_files"] = files
    return ExtendedModelResponse(reply, Command(update=update)) if update else reply


def get_uploads(message: AnyMessage) -> Sequence[MessageFile]:
    """Return the valid files attached to a message."""
    files = message.additional_kwargs.get("files") if isinstance(message, HumanMessage) else None
    return list(parse_uploads(files)) if isinstance(files, list) else ()


def parse_uploads(files: Sequence[object]) -> Iterator[MessageFile]:
    """Yield the files in `additional_kwargs.files`, without those that were not uploaded."""
    for entry in files:
        if not isinstance(entry, Mapping) or entry.get("status", "uploaded") != "uploaded":
            continue
        name, path, size = entry.get("filename"), entry.get("path"), entry.get("size")
        details = size if isinstance(size, int) else None, parse_status(entry.get(STATUS_KEY))
        if isinstance(path, str) and path.startswith(f"{UPLOADS}/"):
            yield MessageFile(path, *details)
        elif isinstance(name, str) and name and "/" not in name:
            yield MessageFile(f"{UPLOADS}/{name}", *details)


STATUS_ADAPTER = TypeAdapter(UploadStatus)


def parse_status(stored: object) -> UploadStatus | None:
    """Parse a stored conversion status. Return None if it is invalid."""
    try:
        return STATUS_ADAPTER.validate_python(stored) if isinstance(stored, Mapping) else None
    except ValidationError:
        return None


def add_file_list(message: AnyMessage) -> AnyMessage:
    """Return `message` with the list of its files before its content."""
    uploads = get_uploads(message)
    if not uploads:
        return message
    block = TEMPLATE.substitute(files="\n".join(format_files(uploads)))
    content = message.content
    blocks = f"{block}\n\n{content}" if isinstance(content, str) else [{"type": "text", "text": block}, *content]
    return message.model_copy(update={"content": blocks})


def format_files(uploads: Sequence[MessageFile]) -> Iterator[str]:
    """Yield a line per file, and one for the rest."""
    for upload in uploads[:MAX_SHOWN]:
        size = "" if upload.size is None else f" ({format_size(upload.size)})"
        yield escape(f"- {escape_line(upload.path)}{size}", quote=False)
        yield from format_status(upload.status or UploadStatus())
    omitted = uploads[MAX_SHOWN:]
    if omitted:
        suffixes = (PurePosixPath(escape_line(upload.name)).suffix.lower() for upload in omitted)
        kinds = Counter(escape(suffix, quote=False) or "no extension" for suffix in suffixes)
        counts = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
        yield f"- and {len(omitted)} more ({counts}); `list_uploaded_files` shows all"


def format_status(status: UploadStatus) -> Iterator[str]:
    """Yield the Markdown path and outline of a document, or why there is none."""
    if status.markdown_path is not None:
        yield f"  {format_markdown_path(escape(status.markdown_path, quote=False), status.outline)}"
        yield from (f"  {line}" for line in (format_outline(status.outline, MAX_HEADINGS) if status.outline else ()))
    elif status.note is not None:
        yield f"  no Markdown of it: {escape(escape_line(status.note), quote=False)}"
