"""Turns with the agent for protocol servers: starts a run and streams its events."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import orjson

from deerflow.domain.errors import NotFound
from deerflow.domain.identity import Principal
from deerflow.domain.runs import Resume, RunEvent, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.runtime.journal.serialization import CLARIFICATION_TOOL, REASONING, extract_text, has_action_requests

TASK_TEXTS = MappingProxyType(
    {
        "task_queued": "waits for its turn",
        "task_started": "begins",
        "task_completed": "is done",
        "task_failed": "has failed",
        "task_timed_out": "took too long",
        "task_cancelled": "was stopped",
    }
)
"""Texts for the events of subagents."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Chunk of an answer, or of the reasoning before it."""

    text: str
    is_thought: bool = False


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model calls a tool."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """Progress of a tool."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """Result of a tool, written for the model."""

    call_id: str
    tool: str
    text: str
    has_failed: bool


@dataclass(frozen=True, slots=True)
class PlanUpdated:
    """The todo list has changed."""

    todos: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class TitleChanged:
    """The thread has a new title."""

    title: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """No event for a while; the run continues."""


TurnEvent = TextDelta | ToolCallStarted | ToolProgressed | ToolFinished | PlanUpdated | TitleChanged | Heartbeat


@dataclass(slots=True)
class TurnEventReader:
    """Converts logged run events to turn events, and keeps the final answer."""

    answer: str = ""
    failure: str | None = None
    called: set[str] = field(default_factory=set)
    """Calls already reported; a resumed run gets those it was paused for."""
    _streamed: set[str] = field(default_factory=set)

    def read(self, event: RunEvent) -> Iterator[TurnEvent]:
        """Yield the turn events of a run event."""
        match event.event:
            case "messages":
                yield from self._read_chunk(orjson.loads(event.data)[0])
            case "changes":
                yield from self._read_changes(orjson.loads(event.data))
            case "custom":
                yield from read_progress(orjson.loads(event.data))
            case "error":
                self.failure = orjson.loads(event.data)["message"]

    def _read_chunk(self, chunk: Mapping[str, Any]) -> Iterator[TurnEvent]:
        if chunk["type"] not in ("AIMessageChunk", "ai"):
            return
        if thought := chunk["additional_kwargs"].get(REASONING):
            yield TextDelta(thought, is_thought=True)
        if text := extract_text(chunk["content"]):
            self._streamed.add(chunk["id"])
            yield TextDelta(text)

    def _read_changes(self, changes: Mapping[str, Any]) -> Iterator[TurnEvent]:
        for message in changes["messages"]:
            if message["type"] == "ai":
                yield from self._read_reply(message)
            elif message["type"] == "tool":
                yield from self._read_result(message)
        values = changes["values"]
        if todos := values.get("todos"):
            yield PlanUpdated(tuple(todos))
        if title := values.get("title"):
            yield TitleChanged(title)

    def _read_reply(self, message: Mapping[str, Any]) -> Iterator[TurnEvent]:
        text = extract_text(message["content"])
        self.answer = text or self.answer
        if text and message["id"] not in self._streamed:  # not every model streams
            self._streamed.add(message["id"])
            yield TextDelta(text)
        for call in message["tool_calls"]:
            if call["id"] not in self.called:
                self.called.add(call["id"])
                yield ToolCallStarted(call["id"], call["name"], call["args"])

    def _read_result(self, message: Mapping[str, Any]) -> Iterator[TurnEvent]:
        text = extract_text(message["content"])
        if message["tool_call_id"] not in self.called:
            return  # of an earlier turn, written again because it was shortened
        yield ToolFinished(message["tool_call_id"], message["name"] or "", text, message["status"] == "error")
        if message["name"] == CLARIFICATION_TOOL:  # meant for the user, in place of an answer
            self.answer = text
            yield TextDelta(text)


def read_progress(event: Mapping[str, Any]) -> Iterator[TurnEvent]:
    """Yield the progress of a tool or subagent."""
    kind = str(event.get("type"))
    if kind == "tool_progress":
        yield ToolProgressed(event["tool_call_id"], event["output"])
    elif kind in TASK_TEXTS and event.get("task_id"):
        yield ToolProgressed(event["task_id"], f"{event.get('description') or 'task'}: {TASK_TEXTS[kind]}\n")


TurnEnding = Literal["answered", "asks", "needs_approval", "failed", "stopped"]
HEARTBEAT_S = 10.0


@dataclass(slots=True)
class Turn:
    """Run that is followed to its end; `ending` then says how it ended."""

    harness: Harness
    user: Principal
    request: RunRequest
    run: RunRecord | None = None
    ending: TurnEnding = "stopped"
    questions: Sequence[Mapping[str, Any]] = ()
    """Interrupts of a paused run from the state of the thread; when `ending` is `asks`, a text answers them."""
    reader: TurnEventReader = field(default_factory=TurnEventReader)

    async def follow(self) -> AsyncGenerator[TurnEvent]:
        """Yield the events of the run. Leaving the iteration early stops the run.

        Raises:
            Conflict: The thread has an active run.
            NotFound: The thread does not exist and is not created, or belongs to another user.
        """
        runs = self.harness.runs
        self.run = await runs.create_or_reject(self.request, self.user)
        is_over = False
        try:
            async with aclosing(runs.listen(self.run, heartbeat_s=HEARTBEAT_S)) as groups:
                async for group in groups:
                    for event in self._read_group(group):
                        yield event
            is_over = True
        finally:
            if not is_over:  # a cancelled task cannot await
                runs.cancel_in_background(self.run)
        await self._read_outcome()

    def _read_group(self, group: Sequence[RunEvent]) -> Iterator[TurnEvent]:
        """Yield the events of a group; an empty group is a heartbeat."""
        if not group:
            yield Heartbeat()
        for event in group:
            yield from self.reader.read(event)

    def read_questions(self, interrupts: bytes) -> None:
        """Set the questions of a paused thread."""
        self.questions = orjson.loads(interrupts)

    def get_answer(self) -> str:
        """Return the answer, or the questions of a tool or of the agent instead of it."""
        if self.ending != "asks" or not self.questions:
            return self.reader.answer
        return "\n\n".join(str(question["value"]) for question in self.questions)

    async def _read_outcome(self) -> None:
        assert self.run is not None
        thread_id = self.run.thread_id
        try:
            run = self.run = await self.harness.runs.get(thread_id, self.run.run_id, self.user)
            thread = await self.harness.threads.get(thread_id, self.user)
        except NotFound:  # the thread was deleted meanwhile
            return
        if self.reader.failure is not None or run.status in (RunStatus.ERROR, RunStatus.TIMEOUT):
            self.ending = "failed"
        elif thread.waits_for == "approval":
            state = await self.harness.threads.state(thread_id, self.user)
            self.read_questions(state.interrupts)
            self.ending = "needs_approval" if all(map(has_action_requests, self.questions)) else "asks"
        elif run.status is RunStatus.SUCCESS:
            self.ending = "asks" if thread.waits_for == "answer" else "answered"
        else:
            self.ending = "stopped"


def build_resume(questions: Sequence[Mapping[str, Any]], text: str) -> Resume:
    """Return a text as the answer to all questions."""
    return Resume({question["id"]: text for question in questions})


async def stop_runs(harness: Harness) -> None:
    """Stop all active runs: their client has disconnected, and no other process may resume them."""
    for run in harness.runs.active_runs():
        await harness.runs.stop(run.run_id)
