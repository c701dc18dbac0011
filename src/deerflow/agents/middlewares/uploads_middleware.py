"""Shows the model which files came with a message.

What the user wrote stays stored as it is. The list is made for each request from what the message itself says, never
from the disk, so a message looks the same in every request and the cached prefix holds.
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

from deerflow.agents.middlewares.replies import AskModel, AskModelAsync, Reply, Request, is_from_a_person
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext
from deerflow.domain.files import UPLOADS
from deerflow.tools.wording import in_words, one_line

MAX_SHOWN = 10
BLOCK = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip())


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that came with a message."""

    path: str
    size: int | None = None

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


class UploadsMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Puts a list of its files before each message that came with some, in the request alone."""

    state_schema = ThreadState

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply | ExtendedModelResponse[Any]:
        return noting_uploads(request, handler(showing_uploads(request)))

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply | ExtendedModelResponse[Any]:
        return noting_uploads(request, await handler(showing_uploads(request)))


def showing_uploads(request: Request) -> Request:
    """`request` with the lists of files; the same object when no message came with files."""
    if not any(map(uploads_of, request.messages)):
        return request
    return request.override(messages=list(map(with_list, request.messages)))


def noting_uploads(request: Request, reply: Reply) -> Reply | ExtendedModelResponse[Any]:
    """`reply`, and the files of the latest message for the state if it does not have them yet."""
    latest = next(filter(is_from_a_person, reversed(request.messages)), None)
    files = [
        {"filename": upload.name, "size": upload.size, "path": upload.path}
        for upload in (uploads_of(latest) if latest else ())
    ]
    if not files or request.state.get("uploaded_files") == files:
        return reply
    return ExtendedModelResponse(reply, Command(update={"uploaded_files": files}))


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
        if isinstance(path, str) and path.startswith(f"{UPLOADS}/"):
            yield Upload(path, size if isinstance(size, int) else None)
        elif isinstance(name, str) and name and "/" not in name:
            yield Upload(f"{UPLOADS}/{name}", size if isinstance(size, int) else None)


def with_list(message: AnyMessage) -> AnyMessage:
    """`message` with the list of its files before what the user wrote."""
    uploads = uploads_of(message)
    if not uploads:
        return message
    block = BLOCK.substitute(files=escape("\n".join(describe(uploads)), quote=False))
    content = message.content
    blocks = f"{block}\n\n{content}" if isinstance(content, str) else [{"type": "text", "text": block}, *content]
    return message.model_copy(update={"content": blocks})


def describe(uploads: Sequence[Upload]) -> Iterator[str]:
    """A line for each file, and one for all that are too many."""
    for upload in uploads[:MAX_SHOWN]:
        size = "" if upload.size is None else f" ({in_words(upload.size)})"
        yield f"- {one_line(upload.path)}{size}"
    rest = uploads[MAX_SHOWN:]
    if rest:
        kinds = Counter(PurePosixPath(one_line(upload.name)).suffix.lower() or "no extension" for upload in rest)
        counts = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
        yield f"- and {len(rest)} more ({counts}); `list_uploaded_files` shows all"
