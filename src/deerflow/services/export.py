"""Export of a thread as one file, in Markdown or JSON."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from html import escape
from typing import Any, Literal

import orjson

from deerflow.agent_support.replies import HIDDEN
from deerflow.domain.files import FileEntry
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunRecord
from deerflow.domain.threads import ThreadRecord
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.runs import list_runs
from deerflow.persistence.queries.search import BacklogChange, read_backlog_changes
from deerflow.persistence.queries.threads import find_thread
from deerflow.runtime.transcript import content_text

MessageData = Mapping[str, Any]
TICKS = re.compile("`+")


def render_markdown(
    thread: ThreadRecord, messages: Sequence[MessageData], files: Sequence[FileEntry]
) -> Iterator[bytes]:
    """Yield the thread as Markdown, part by part."""
    yield f"# {to_one_line(thread.title or thread.thread_id)}\n\n".encode()
    yield f"Thread `{thread.thread_id}`, begun {thread.created_at:%Y-%m-%d %H:%M} UTC.\n".encode()
    results = {message["tool_call_id"]: message for message in messages if message["type"] == "tool"}
    for message in messages:
        if not message["additional_kwargs"].get(HIDDEN):
            yield "".join(render_message(message, results)).encode("utf-8", "replace")
    if files:
        yield b"\n## Files\n\n"
        yield "".join(f"- `{to_one_line(file.path)}`, {format_size(file.size)}\n" for file in files).encode(
            "utf-8", "replace"
        )


def render_message(message: MessageData, results: Mapping[str, MessageData]) -> Iterator[str]:
    """Yield the Markdown of a message; tool results follow their calls."""
    if message["type"] == "human":
        yield f"\n## You\n\n{read_text(message)}\n"
        yield from (f"\nAttached: `{to_one_line(str(file.get('filename')))}`\n" for file in list_attachments(message))
    elif message["type"] == "ai":
        yield from render_reply(message, results)


def render_reply(message: MessageData, results: Mapping[str, MessageData]) -> Iterator[str]:
    """Yield the Markdown of a reply: reasoning, text and tool calls."""
    thought = message["additional_kwargs"].get("reasoning_content")
    calls = message.get("tool_calls") or ()
    if not (thought or calls or read_text(message)):
        return
    yield "\n## DeerFlow\n"
    if thought:
        yield render_details("Thought", str(thought))
    if read_text(message):
        yield f"\n{read_text(message)}\n"
    for call in calls:
        result = results.get(call["id"])
        arguments = orjson.dumps(call["args"], option=orjson.OPT_INDENT_2).decode()
        came = "" if result is None else f"\n\n{render_code(read_text(result), '')}"
        failed = " (failed)" if result is not None and result.get("status") == "error" else ""
        yield render_details(f"{call['name']}{failed}", f"{render_code(arguments, 'json')}{came}")


def read_text(message: MessageData) -> str:
    """Return the text of a message; other content is replaced by its type."""
    content = message["content"]
    if isinstance(content, str):
        return content.strip()
    others = (block["type"] for block in content if isinstance(block, Mapping) and "text" not in block)
    marks = "".join(f"\n\n[{to_one_line(str(kind))}]" for kind in others)
    return f"{content_text(content)}{marks}".strip()


def list_attachments(message: MessageData) -> Sequence[Mapping[str, Any]]:
    """Return the files attached to a message."""
    files = message["additional_kwargs"].get("files")
    return [file for file in files if isinstance(file, Mapping)] if isinstance(files, list) else []


def render_details(summary: str, text: str) -> str:
    """Return a collapsible section."""
    return f"\n<details><summary>{escape(to_one_line(summary))}</summary>\n\n{text}\n\n</details>\n"


def render_code(text: str, language: str) -> str:
    """Return a code block whose fence does not occur in the text."""
    longest = max((len(ticks) for ticks in TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def to_one_line(text: str) -> str:
    """Return a text without line breaks and backticks."""
    return " ".join(text.replace("`", "'").split())


def format_size(count: int) -> str:
    """Return a number of bytes in readable units."""
    return f"{count} bytes" if count < 1024 else f"{count / 1024:.1f} KB"


ExportFormat = Literal["markdown", "json"]
EXPORT_VERSION = 1
MAX_RUNS = 100_000
RUN_FIELDS = ("run_id", "assistant_id", "status", "metadata", "error", "created_at", "updated_at")

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ThreadExport:
    """Export file as a stream."""

    name: str
    media_type: str
    content: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class ThreadExporter:
    """Exports threads."""

    database: Database
    files: Callable[[ThreadRecord], Awaitable[Sequence[FileEntry]]]

    async def export(self, thread_id: str, who: Principal, form: ExportFormat) -> ThreadExport:
        """Return a thread as one file, or raise `NotFound`; later messages are not included."""
        owner = who.user_id
        thread = await self.database.read(partial(find_thread, thread_id=thread_id, owner=owner))
        changes = await self.database.read(partial(read_backlog_changes, thread_id=thread_id, include_active=True))
        messages = list(collect_messages(changes))
        files = await self.files(thread)
        if form == "markdown":
            pieces = render_markdown(thread, messages, files)
            return ThreadExport(f"{thread_id}.md", "text/markdown; charset=utf-8", stream_parts(pieces))
        query = partial(list_runs, thread_id=thread_id, owner=owner, limit=MAX_RUNS, offset=0)
        runs = await self.database.read(query)
        return ThreadExport(
            f"{thread_id}.json", "application/json", stream_parts(render_json(thread, messages, runs, files))
        )


def collect_messages(changes: Sequence[BacklogChange]) -> Iterator[Message]:
    """Yield all messages that were not reverted, in order, including those that were compacted."""
    messages: dict[str, Message] = {}
    for change in changes:
        data = orjson.loads(change.data)
        for id_ in data["removed"] if change.is_reverting else ():
            messages.pop(id_, None)
        for message in data["messages"]:
            known = messages.get(message["id"])
            origin = {"run_id": change.run_id, "created_at": change.created_at}
            # An updated message keeps the run and time of its first version.
            first = {key: known[key] for key in origin} if known else origin
            messages[message["id"]] = {**message, **first}
    yield from messages.values()


def render_json(
    thread: ThreadRecord, messages: Sequence[Message], runs: Sequence[RunRecord], files: Sequence[FileEntry]
) -> Iterator[bytes]:
    """Yield the thread as JSON, part by part."""
    about = {"thread_id": thread.thread_id, "title": thread.title, "metadata": thread.metadata, "status": thread.status}
    times = {"created_at": thread.created_at, "updated_at": thread.updated_at}
    head = {"format": "deerflow.thread", "version": EXPORT_VERSION, "exported_at": datetime.now(UTC)}
    yield orjson.dumps({**head, "thread": {**about, **times}}).removesuffix(b"}")
    yield b',"messages":['
    yield from join_with_commas(orjson.dumps(message) for message in messages)
    yield b'],"runs":['
    yield from join_with_commas(orjson.dumps(describe_run(run)) for run in reversed(runs))
    yield b'],"files":['
    yield from join_with_commas(orjson.dumps(asdict(file)) for file in files)
    yield b"]}\n"


def describe_run(run: RunRecord) -> dict[str, Any]:
    """Return the exported fields of a run."""
    tokens = {"total_input_tokens": run.input_tokens, "total_output_tokens": run.output_tokens}
    return {**{name: getattr(run, name) for name in RUN_FIELDS}, **tokens}


def join_with_commas(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the parts with commas between them."""
    for number, piece in enumerate(pieces):
        yield b",\n" + piece if number else piece


async def stream_parts(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the parts asynchronously, so that other tasks run in between."""
    for piece in pieces:
        yield piece
