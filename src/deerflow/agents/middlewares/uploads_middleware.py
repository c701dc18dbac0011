"""Shows the model which files came with a message.

What the user wrote stays stored as it is. The list is made for each request from what the message itself says, never
from the disk, so a message looks the same in every request and the cached prefix holds. What became of documents is
looked up once, before the model first sees a message, and then belongs to the message.
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

from deerflow.agents.middlewares.replies import AskModel, AskModelAsync, Reply, Request, is_from_a_person
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.files import UPLOADS
from deerflow.domain.uploads import Outline, ThreadUploads, UploadedFile
from deerflow.tools.outlines import describe_markdown, outline_lines
from deerflow.tools.wording import in_words, one_line

MAX_SHOWN = 10
MAX_HEADINGS = 15
SEEN = "seen"
"""Under which key an entry of `additional_kwargs.files` says what became of the file."""
BLOCK = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip())


@dataclass(frozen=True, slots=True)
class Seen:
    """What had become of a file when the model first saw it."""

    markdown_path: str | None = None
    note: str | None = None
    outline: Outline | None = None


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that came with a message."""

    path: str
    size: int | None = None
    seen: Seen | None = None

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


class UploadsMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Puts a list of its files before each message that came with some, in the request alone."""

    state_schema = ThreadState

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply | ExtendedModelResponse[Any]:
        return noting_uploads(request, handler(showing_uploads(request)), ())

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply | ExtendedModelResponse[Any]:
        settled = await settle_uploads(request)
        by_id = {message.id: message.additional_kwargs for message in settled}
        messages = [
            message.model_copy(update={"additional_kwargs": by_id[message.id]}) if message.id in by_id else message
            for message in request.messages
        ]
        request = request.override(messages=messages) if settled else request
        return noting_uploads(request, await handler(showing_uploads(request)), settled)


async def settle_uploads(request: Request) -> Sequence[AnyMessage]:
    """The messages whose files nobody has looked after yet, as they are in the state, with what became of the files."""
    run = run_in(request.runtime.context) if request.runtime else None
    unseen = [message for message in request.state["messages"] if message.id and is_unseen(message)]
    if run is None or run.uploads is None or not unseen:
        return ()
    return [await with_seen(message, run.uploads) for message in unseen]


def is_unseen(message: AnyMessage) -> bool:
    """Whether a message came with files of which it does not say yet what became of them."""
    return any(upload.seen is None for upload in uploads_of(message))


async def with_seen(message: AnyMessage, uploads: ThreadUploads) -> AnyMessage:
    """`message` with what became of its files; conversions under way are waited for, within bounds."""
    names = [upload.path.removeprefix(f"{UPLOADS}/") for upload in uploads_of(message)]
    found = await uploads.settle(names)
    entries = [entry_with_seen(entry, found) for entry in message.additional_kwargs["files"]]
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, "files": entries}})


def entry_with_seen(entry: object, found: Mapping[str, UploadedFile]) -> object:
    """An entry of `additional_kwargs.files` with what became of the file."""
    read = next(read_uploads([entry]), None)
    if read is None or not isinstance(entry, Mapping):
        return entry
    file = found.get(read.path.removeprefix(f"{UPLOADS}/"))
    seen = Seen(file.markdown_path, file.note, file.outline) if file else Seen(note="it is no longer there")
    return {**entry, SEEN: SEEN_ADAPTER.dump_python(seen, mode="json", exclude_none=True)}


def showing_uploads(request: Request) -> Request:
    """`request` with the lists of files; the same object when no message came with files."""
    if not any(map(uploads_of, request.messages)):
        return request
    return request.override(messages=list(map(with_list, request.messages)))


def noting_uploads(request: Request, reply: Reply, settled: Sequence[AnyMessage]) -> Reply | ExtendedModelResponse[Any]:
    """`reply`, and for the state the files of the latest message and what became of files, if it does not know yet."""
    latest = next(filter(is_from_a_person, reversed(request.messages)), None)
    files = [
        {"filename": upload.name, "size": upload.size, "path": upload.path}
        for upload in (uploads_of(latest) if latest else ())
    ]
    update: dict[str, Any] = {"messages": list(settled)} if settled else {}
    if files and request.state.get("uploaded_files") != files:
        update["uploaded_files"] = files
    return ExtendedModelResponse(reply, Command(update=update)) if update else reply


def uploads_of(message: AnyMessage) -> Sequence[Upload]:
    """The files that came with a message, as far as its sender described them in a form that can be used."""
    files = message.additional_kwargs.get("files") if isinstance(message, HumanMessage) else None
    return list(read_uploads(files)) if isinstance(files, list) else ()


def read_uploads(files: Sequence[object]) -> Iterator[Upload]:
    """What the entries of `additional_kwargs.files` say; those that never arrived are passed over."""
    for entry in files:
        if not isinstance(entry, Mapping) or entry.get("status", "uploaded") != "uploaded":
            continue
        name, path, size = entry.get("filename"), entry.get("path"), entry.get("size")
        known = size if isinstance(size, int) else None, read_seen(entry.get(SEEN))
        if isinstance(path, str) and path.startswith(f"{UPLOADS}/"):
            yield Upload(path, *known)
        elif isinstance(name, str) and name and "/" not in name:
            yield Upload(f"{UPLOADS}/{name}", *known)


SEEN_ADAPTER = TypeAdapter(Seen)


def read_seen(stored: object) -> Seen | None:
    """What a message says of what became of a file, if it can be understood."""
    try:
        return SEEN_ADAPTER.validate_python(stored) if isinstance(stored, Mapping) else None
    except ValidationError:
        return None


def with_list(message: AnyMessage) -> AnyMessage:
    """`message` with the list of its files before what the user wrote."""
    uploads = uploads_of(message)
    if not uploads:
        return message
    block = BLOCK.substitute(files="\n".join(describe(uploads)))
    content = message.content
    blocks = f"{block}\n\n{content}" if isinstance(content, str) else [{"type": "text", "text": block}, *content]
    return message.model_copy(update={"content": blocks})


def describe(uploads: Sequence[Upload]) -> Iterator[str]:
    """A line for each file, and one for all that are too many."""
    for upload in uploads[:MAX_SHOWN]:
        size = "" if upload.size is None else f" ({in_words(upload.size)})"
        yield escape(f"- {one_line(upload.path)}{size}", quote=False)
        yield from describe_seen(upload.seen or Seen())
    rest = uploads[MAX_SHOWN:]
    if rest:
        suffixes = (PurePosixPath(one_line(upload.name)).suffix.lower() for upload in rest)
        kinds = Counter(escape(suffix, quote=False) or "no extension" for suffix in suffixes)
        counts = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
        yield f"- and {len(rest)} more ({counts}); `list_uploaded_files` shows all"


def describe_seen(seen: Seen) -> Iterator[str]:
    """What became of a document, and where in it something is."""
    if seen.markdown_path is not None:
        yield f"  {describe_markdown(escape(seen.markdown_path, quote=False), seen.outline)}"
        yield from (f"  {line}" for line in (outline_lines(seen.outline, MAX_HEADINGS) if seen.outline else ()))
    elif seen.note is not None:
        yield f"  no Markdown of it: {escape(one_line(seen.note), quote=False)}"
