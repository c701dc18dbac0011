"""What happens in a run, in words that every protocol can say."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orjson

from deerflow.client.events import QUESTION, text_of
from deerflow.domain.events import StreamEvent
from deerflow.runtime.pieces import REASONING

TASKS = MappingProxyType(
    {
        "task_queued": "waits for its turn",
        "task_started": "begins",
        "task_completed": "is done",
        "task_failed": "has failed",
        "task_timed_out": "took too long",
        "task_cancelled": "was stopped",
    }
)
"""What is told of subagents, besides what comes of them."""


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of an answer, or of what was thought before it."""

    text: str
    is_thought: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """The model wants a tool."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Progressed:
    """A tool tells how far it is."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Returned:
    """A tool is done; what it said is for the model."""

    call_id: str
    tool: str
    text: str
    has_failed: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be done now, and how far each part of it is."""

    todos: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class Named:
    """The thread has a title."""

    title: str


@dataclass(frozen=True, slots=True)
class Waited:
    """Nothing has happened for a while, but the run goes on."""


Happening = Said | Called | Progressed | Returned | Planned | Named | Waited


@dataclass(slots=True)
class Listener:
    """Makes happenings of the logged events of one run, and remembers what it said in the end."""

    answer: str = ""
    failure: str | None = None
    called: set[str] = field(default_factory=set)
    """The calls that were told of; a run that goes on after a pause is given those it has paused for."""
    _streamed: set[str] = field(default_factory=set)

    def hear(self, logged: StreamEvent) -> Iterator[Happening]:
        """What an event means."""
        match logged.event:
            case "messages":
                yield from self._piece(orjson.loads(logged.data)[0])
            case "changes":
                yield from self._changes(orjson.loads(logged.data))
            case "custom":
                yield from progress_in(orjson.loads(logged.data))
            case "error":
                self.failure = orjson.loads(logged.data)["message"]

    def _piece(self, piece: Mapping[str, Any]) -> Iterator[Happening]:
        if piece["type"] not in ("AIMessageChunk", "ai"):
            return
        if thought := piece["additional_kwargs"].get(REASONING):
            yield Said(thought, is_thought=True)
        if text := text_of(piece["content"]):
            self._streamed.add(piece["id"])
            yield Said(text)

    def _changes(self, changes: Mapping[str, Any]) -> Iterator[Happening]:
        for message in changes["messages"]:
            if message["type"] == "ai":
                yield from self._reply(message)
            elif message["type"] == "tool":
                yield from self._result(message)
        values = changes["values"]
        if todos := values.get("todos"):
            yield Planned(tuple(todos))
        if title := values.get("title"):
            yield Named(title)

    def _reply(self, message: Mapping[str, Any]) -> Iterator[Happening]:
        text = text_of(message["content"])
        self.answer = text or self.answer
        if text and message["id"] not in self._streamed:  # not every model streams
            self._streamed.add(message["id"])
            yield Said(text)
        for call in message["tool_calls"]:
            if call["id"] not in self.called:
                self.called.add(call["id"])
                yield Called(call["id"], call["name"], call["args"])

    def _result(self, message: Mapping[str, Any]) -> Iterator[Happening]:
        text = text_of(message["content"])
        if message["tool_call_id"] not in self.called:
            return  # of an earlier turn, told again because it was shortened
        yield Returned(message["tool_call_id"], message["name"] or "", text, message["status"] == "error")
        if message["name"] == QUESTION:  # meant for the user, in place of an answer
            self.answer = text
            yield Said(text)


def progress_in(event: Mapping[str, Any]) -> Iterator[Happening]:
    """What a tool or a subagent tells while it works."""
    kind = str(event.get("type"))
    if kind == "tool_progress":
        yield Progressed(event["tool_call_id"], event["output"])
    elif kind in TASKS and event.get("task_id"):
        yield Progressed(event["task_id"], f"{event.get('description') or 'task'}: {TASKS[kind]}\n")
