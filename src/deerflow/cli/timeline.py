"""A run's log in words: one line for everything that happened."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from deerflow.cli.tasks import line_of
from deerflow.domain.runs import RunRecord
from deerflow.persistence.events import LoggedEvent

WIDTH = 200
SILENT = frozenset({"tool_progress"})
"""Custom events that say nothing which is not said again."""


async def tell_run(run: RunRecord, events: AsyncIterator[LoggedEvent]) -> AsyncIterator[str]:
    """The run as lines to read."""
    attempts = f", {run.attempt} attempts" if run.attempt > 1 else ""
    yield f"run {run.run_id} in thread {run.thread_id}: {run.status.value}{attempts}"
    yield f"{run.created_at.astimezone():%Y-%m-%d %H:%M:%S %Z}, {run.assistant_id}"
    teller = Teller(run)
    async for logged in events:
        for line in teller.tell(logged):
            yield f"{seconds_since(run.created_at, logged.created_at):>9} {line}"
    for line in teller.unfinished():
        yield f"{'':9} {line}"


class Teller:
    """Joins pieces of messages and remembers which call is which."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run
        self._said: dict[str, str] = {}
        self._begun: dict[str, tuple[str, datetime]] = {}

    def tell(self, logged: LoggedEvent) -> Iterator[str]:
        """What an event means."""
        data = orjson.loads(logged.event.data)
        match logged.event.event:
            case "metadata":
                yield "begins"
            case "messages":
                self._hear(data[0])
            case "changes":
                yield from self._changes(data)
            case "tool_intent":
                self._begun[data["tool_call_id"]] = data["tool"], logged.created_at
                yield f"  {data['tool']} begins"
            case "tool_outcome":
                tool, at = self._begun.pop(data["tool_call_id"], ("a tool", logged.created_at))
                yield f"  {tool} is done, after {seconds_since(at, logged.created_at)}"
            case "steered":
                yield from (f"joins: {one_line(message)}" for message in data["messages"])
            case "custom":
                yield from custom(data)
            case "error":
                yield f"error: {data['name']}: {data['message']}"
            case "end":
                yield f"ends: {self._run.status.value}"

    def unfinished(self) -> Iterator[str]:
        """What was begun and has not ended yet."""
        yield from (f"ai, not yet all: {clip(text)}" for text in self._said.values() if text.strip())
        yield from (f"  {tool} is at work" for tool, _ in self._begun.values())

    def _hear(self, piece: Mapping[str, Any]) -> None:
        if piece["type"] == "AIMessageChunk":
            self._said[piece["id"]] = self._said.get(piece["id"], "") + text_in(piece["content"])

    def _changes(self, data: Mapping[str, Any]) -> Iterator[str]:
        for message in data["messages"]:
            self._said.pop(message["id"], None)
            yield from tell_message(message)
        for gone in data["removed"]:
            said = self._said.pop(gone, None)
            yield f"taken back: {clip(said)}" if said else f"taken back: message {gone}"
        yield from (f"{name}: {clip(orjson.dumps(value).decode())}" for name, value in data["values"].items())


def tell_message(message: Mapping[str, Any]) -> Iterator[str]:
    """A message, and the tool calls in it."""
    if message["type"] == "tool":
        yield f"  {message.get('name') or 'tool'} says: {one_line(message)}"
        return
    if one_line(message):
        yield f"{message['type']}: {one_line(message)}"
    for call in message.get("tool_calls") or ():
        yield f"  calls {call['name']} {clip(orjson.dumps(call['args']).decode())}"


def custom(data: object) -> Iterator[str]:
    """What a custom event means."""
    fields = data if isinstance(data, Mapping) else {}
    kind = fields.get("type")
    if kind == "handed_over":
        yield "the server is put away; the next one goes on"
    elif kind == "workspace_changes":
        counts = [f"{count} {word}" for word, count in fields.items() if isinstance(count, int) and count]
        yield f"files: {', '.join(counts) or 'not known'}"
    elif kind == "memory":
        if fields["considered"]:
            yield f"memory: told {len(fields['injected'])} of {fields['considered']} facts, {fields['tokens']} tokens"
    elif "task_id" in fields:
        yield from filter(None, [line_of(fields)])
    elif kind not in SILENT:
        yield f"custom: {clip(orjson.dumps(data).decode())}"


def one_line(message: Mapping[str, Any]) -> str:
    """The text of a message."""
    return clip(text_in(message["content"]))


def text_in(content: str | list[Any]) -> str:
    """The text of a content, which may be a list of blocks."""
    if isinstance(content, str):
        return content
    return "".join(block if isinstance(block, str) else block.get("text", "") for block in content)


def clip(text: str) -> str:
    """At most a line of `text`."""
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else f"{line[:WIDTH]} … ({len(line)} characters)"


def seconds_since(begin: datetime, now: datetime) -> str:
    """How much later `now` is."""
    return f"{(now - begin).total_seconds():.3f} s"
