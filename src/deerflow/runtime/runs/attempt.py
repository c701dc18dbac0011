"""One attempt at a run: logged state and outcome."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.domain.threads import WaitReason
from deerflow.persistence.checkpoints import WRITER_KEY, CheckpointWriter
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.journal.serialization import stream_part_fields, subgraph_part, to_json
from deerflow.runtime.journal.state_diff import Changes, StateDiff
from deerflow.runtime.runs.job import Job
from deerflow.runtime.runs.records import PartialAnswer
from deerflow.tracing.logs import Metrics

UNKNOWN = "unknown"
SHOWN_FROM_MS = 1000
"""Shorter durations are not shown, so they are not stored unless a call of the same step took longer."""


@dataclass(slots=True)
class ToolResultCounts:
    """Tool messages of one attempt, each in its latest version."""

    _messages: dict[str, ToolMessage] = field(default_factory=dict)

    def add(self, messages: Iterable[BaseMessage]) -> None:
        """Add new and changed tool messages."""
        for message in messages:
            if isinstance(message, ToolMessage) and message.id is not None:
                self._messages[message.id] = message

    def count_in(self, metrics: Metrics) -> None:
        """Add the totals to the metrics."""
        for message in self._messages.values():
            metrics.count_tool_call(message.name or UNKNOWN, message.status)


@dataclass(slots=True)
class Attempt:
    """Job in execution, with its event log and the state that readers know."""

    job: Job
    log: RunLog
    answer: PartialAnswer = field(default_factory=PartialAnswer)
    state: StateDiff | None = None
    tools: ToolResultCounts = field(default_factory=ToolResultCounts)

    @property
    def run(self) -> RunRecord:
        return self.job.run

    def log_part(self, namespace: Sequence[Sequence[str]], mode: Any, part: Any) -> None:
        """Log a part of the stream of the graph or of a subgraph."""
        if any(namespace):
            self.log.append("subgraph", subgraph_part(namespace[0], mode, part))
        elif mode == "messages":
            self.log_chunk(*part)
        elif mode == "values" and self.state is not None:
            changes = self.state.against(part)
            self.tell(changes)
            self.log.outcomes.clear()  # the state has them now
            # Messages that left the model's context stay in the transcript.
            self.job.records.add_messages(changes.messages)
            self.job.records.add_values(changes.values)
            self.job.records.messages = part.get("messages", ())
            self.tools.add(changes.messages)
        else:
            self.log.append(mode, to_json(stream_part_fields(mode, part)))

    def log_chunk(self, piece: BaseMessage, metadata: Mapping[str, object]) -> None:
        """Log a chunk of a message."""
        if isinstance(piece, AIMessageChunk):
            superseded = self.answer.add(piece.id, piece.text, piece.additional_kwargs.get("reasoning_content"))
            if superseded is not None:  # the model was asked again: what it had begun to say is void
                self.tell(Changes(removed=[superseded]))
        self.log.append_chunk(piece, metadata)

    def tell(self, changes: Changes) -> None:
        """Log the changes of the state."""
        if changes:
            thought = self.answer.forget([message.id for message in changes.messages])
            took = take_durations(changes.messages, self.log.call_ms)
            self.log.append("changes", replace(changes, thought_ms=thought, took_ms=took).to_json())

    def waits_for(self, status: RunStatus) -> WaitReason | None:
        """Return what the thread waits for after this attempt, if anything."""
        if status is RunStatus.SUCCESS:
            return "answer" if self.job.records.asks else None
        is_paused = status is RunStatus.INTERRUPTED and self.state is not None and self.state.is_paused
        return "approval" if is_paused else None

    def correct(self, changes: Changes) -> None:
        """Log a correction of the state: removed messages were never part of it."""
        self.tell(changes)
        self.job.records.transcript.remove(changes.removed)
        self.job.records.add_messages(changes.messages)


def take_durations(messages: Iterable[BaseMessage], call_ms: dict[str, int]) -> dict[str, int]:
    """Take the durations of the calls that have results among `messages`; none if all were short."""
    results = [message for message in messages if isinstance(message, ToolMessage) and message.id]
    took = {str(each.id): call_ms.pop(each.tool_call_id) for each in results if each.tool_call_id in call_ms}
    return took if any(duration >= SHOWN_FROM_MS for duration in took.values()) else {}


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Final status of a run, with its error."""

    status: RunStatus
    error_name: str | None = None
    error: str | None = None
    is_paused: bool = False
    """True if the run waits at an interrupt or a breakpoint, and goes on later."""

    def to_json(self) -> bytes:
        """Return the data of an `error` event."""
        return to_json({"error": self.error_name, "name": self.error_name, "message": self.error})


def attempt_config(run: RunRecord) -> RunnableConfig:
    """Return the LangGraph config for the thread of a run; the checkpointer learns the attempt that writes."""
    return {"configurable": {"thread_id": run.thread_id, WRITER_KEY: CheckpointWriter(run.run_id, run.attempt)}}
