"""A whole thread as one file: Markdown for people, JSON for programs."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import orjson

from deerflow.domain.files import FileEntry
from deerflow.domain.principal import Principal
from deerflow.domain.runs import RunRecord
from deerflow.domain.threads import ThreadRecord
from deerflow.persistence.backlog import OldChange, old_changes
from deerflow.persistence.database import Database
from deerflow.persistence.runs import list_runs
from deerflow.persistence.threads import find_thread
from deerflow.runtime.export_markdown import markdown

ExportFormat = Literal["markdown", "json"]
VERSION = 1
MOST_RUNS = 100_000
RUN_FIELDS = ("run_id", "assistant_id", "status", "metadata", "error", "created_at", "updated_at")

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Export:
    """A file on its way out."""

    name: str
    media_type: str
    content: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Exporter:
    """Writes threads down."""

    database: Database
    files: Callable[[ThreadRecord], Awaitable[Sequence[FileEntry]]]

    async def export(self, thread_id: str, who: Principal, form: ExportFormat) -> Export:
        """A thread as one file, or `NotFound`; what comes meanwhile is not in it."""
        owner = who.user_id
        thread = await self.database.read(partial(find_thread, thread_id=thread_id, owner=owner))
        changes = await self.database.read(partial(old_changes, thread_id=thread_id, and_under_way=True))
        messages = list(said(changes))
        files = await self.files(thread)
        if form == "markdown":
            pieces = markdown(thread, messages, files)
            return Export(f"{thread_id}.md", "text/markdown; charset=utf-8", flowing(pieces))
        mine = partial(list_runs, thread_id=thread_id, owner=owner, limit=MOST_RUNS, offset=0)
        runs = await self.database.read(mine)
        return Export(f"{thread_id}.json", "application/json", flowing(document(thread, messages, runs, files)))


def said(changes: Sequence[OldChange]) -> Iterator[Message]:
    """Everything that was said and not taken back, in order, also what the agent no longer has in view."""
    messages: dict[str, Message] = {}
    for change in changes:
        data = orjson.loads(change.data)
        for id_ in data["removed"] if change.takes_back else ():
            messages.pop(id_, None)
        for message in data["messages"]:
            known = messages.get(message["id"])
            told = {"run_id": change.run_id, "created_at": change.said_at}
            # A message that is told again was said when it was first told.
            first = {key: known[key] for key in told} if known else told
            messages[message["id"]] = {**message, **first}
    yield from messages.values()


def document(
    thread: ThreadRecord, messages: Sequence[Message], runs: Sequence[RunRecord], files: Sequence[FileEntry]
) -> Iterator[bytes]:
    """The thread as JSON, piece by piece."""
    about = {"thread_id": thread.thread_id, "title": thread.title, "metadata": thread.metadata, "status": thread.status}
    times = {"created_at": thread.created_at, "updated_at": thread.updated_at}
    head = {"format": "deerflow.thread", "version": VERSION, "exported_at": datetime.now(UTC)}
    yield orjson.dumps({**head, "thread": {**about, **times}}).removesuffix(b"}")
    yield b',"messages":['
    yield from between(orjson.dumps(message) for message in messages)
    yield b'],"runs":['
    yield from between(orjson.dumps(show_run(run)) for run in reversed(runs))
    yield b'],"files":['
    yield from between(orjson.dumps(asdict(file)) for file in files)
    yield b"]}\n"


def show_run(run: RunRecord) -> dict[str, Any]:
    """What is told of a run."""
    tokens = {"total_input_tokens": run.input_tokens, "total_output_tokens": run.output_tokens}
    return {**{name: getattr(run, name) for name in RUN_FIELDS}, **tokens}


def between(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces with commas between them."""
    for number, piece in enumerate(pieces):
        yield b",\n" + piece if number else piece


async def flowing(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces one by one, so that other work goes on between them."""
    for piece in pieces:
        yield piece
