"""Threads, as all packages above the database see them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

from deerflow.domain.errors import InvalidRequest

ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
WaitReason = Literal["answer", "approval"]
"""The user input that a thread waits for: an answer to a question, or an approval."""
COMPACTION = "compaction"
"""Source, in the metadata of its journal entry, of a summary on request."""
TEMPORARY = "temporary"
"""Metadata key of threads that are not listed, searched or remembered, and that are deleted soon, if it is true."""
BRANCHED_FROM = "branched_from"
"""Metadata key of copies: the id of the thread they were copied from."""
ThreadOrder = Literal["thread_id", "status", "created_at", "updated_at"]


@dataclass(frozen=True, slots=True)
class ThreadRecord:
    """The stored record of a thread."""

    thread_id: str
    owner: str
    title: str | None
    metadata: Mapping[str, object]
    status: ThreadStatus
    created_at: datetime
    updated_at: datetime
    waits_for: WaitReason | None = None
    project_id: str | None = None


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """The filter and order of a thread search."""

    metadata: Mapping[str, object] = field(default_factory=dict)
    ids: Sequence[str] | None = None
    status: ThreadStatus | None = None
    sort_by: ThreadOrder = "updated_at"
    ascending: bool = False
    has_messages: bool | None = None
    """True for threads with a run or a title: others were created for files only."""
    project_id: str | None = None
    """Project of the threads; empty for threads without one, None for all."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in the event logs of a thread: the position of a run, and the number of its event."""

    run_position: int
    event_seq: int


@dataclass(frozen=True, slots=True)
class ShareLink:
    """A public link to the messages that a thread had when the link was created."""

    share_id: str
    owner: str
    thread_id: str
    created_at: datetime
    expires_at: datetime | None
    end: LogPosition | None = None
    """Last event that the link shows; None for old links, which end at the time of their creation."""


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """A message of a thread's history; `role` is `human`, `ai` or `tool`."""

    role: str
    text: str
    sent_at: datetime


@runtime_checkable
class ThreadHistory(Protocol):
    """The messages of one thread."""

    async def search(self, query: str, limit: int) -> Sequence[HistoryMessage]:
        """Return messages that contain all words of `query`, newest first."""
        ...

    async def contains_url(self, url: str) -> bool:
        """Return True if a message or fetched content contains a URL, as `taint.normalize_url` returns it."""
        ...

    async def read_title(self) -> str | None:
        """Return the title of the thread, None when it has none."""
        ...


SearchRole = Literal["human", "ai", "title"]


@dataclass(frozen=True, slots=True)
class SearchableMessage:
    """A message or title that is in the search index."""

    message_id: str
    role: SearchRole
    text: str
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class DiscardedHistory:
    """The messages of a thread after a checkpoint it was reset to."""

    after: datetime
    kept: Sequence[str]
    """The ids of messages that are kept although they were recorded later."""
    run_id: str | None
    """The run that wrote the checkpoint."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A match of a full-text search."""

    thread_id: str
    title: str | None
    run_id: str | None
    message_id: str | None
    role: SearchRole
    snippet: str
    highlights: Sequence[tuple[int, int]]
    """Start and end of the matches in `snippet`, in characters."""
    created_at: datetime


Namespace = tuple[str, ...]
MAX_NAMESPACE_CHARS = 512


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A value stored under a key."""

    namespace: Namespace
    key: str
    value: Mapping[str, object]
    created_at: datetime
    updated_at: datetime


def check_namespace(labels: Sequence[str], *, may_be_empty: bool = False) -> Namespace:
    """Return `labels` as a namespace.

    Raises:
        InvalidRequest: A label is invalid, or the labels are too long together.
    """
    if not labels and not may_be_empty:
        raise InvalidRequest("a namespace needs at least one label")
    for label in labels:
        if not label or "." in label:
            raise InvalidRequest(f"a namespace label must be a non-empty text without periods, not {label!r}")
    if len(".".join(labels)) > MAX_NAMESPACE_CHARS:
        raise InvalidRequest(f"a namespace must not be longer than {MAX_NAMESPACE_CHARS} characters")
    return tuple(labels)


ELLIPSIS = "…"
SLASH_COMMAND = re.compile(r"\s*/[a-z0-9]+(?:-[a-z0-9]+)*(?:\s+|\Z)")
ATTACHMENT_TAGS = ("file", "files", "uploaded_files")
"""Elements by which clients put attached files into the text of a message."""


def derive_title(text: str, max_chars: int) -> str:
    """Return the first words of a message as a title; a slash command or an attached file is none."""
    for tag in ATTACHMENT_TAGS:
        text = remove_elements(text, tag)
    return truncate_title(SLASH_COMMAND.sub("", text, count=1) if SLASH_COMMAND.match(text) else text, max_chars)


def remove_elements(text: str, tag: str) -> str:
    """Return `text` without the elements of a tag."""
    kept, rest = [], text
    while rest:
        before, found, rest = rest.partition(f"<{tag}")
        kept.append(before)
        if found and not rest.startswith((" ", ">")):  # another tag that begins the same
            kept.append(found)
        elif found:
            rest = rest.partition(f"</{tag}>")[2]
    return "".join(kept)


def truncate_title(text: str, max_chars: int) -> str:
    """Return the beginning of `text` on one line, cut between words; empty if there is no text."""
    line = " ".join(text.split())
    if len(line) <= max_chars:
        return line
    cut = line[: max_chars - len(ELLIPSIS)]
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut).rstrip(" ,.;:") + ELLIPSIS
