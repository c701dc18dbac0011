"""One attempt at a run: what it has told so far, and how it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableConfig

from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.domain.threads import WaitsFor
from deerflow.persistence.checkpoints import OWNER_KEY, Owner
from deerflow.runtime.changes import Changes, StateDiff
from deerflow.runtime.journal import RunLog
from deerflow.runtime.runs.job import Job
from deerflow.runtime.runs.partial import PartialAnswer
from deerflow.runtime.runs.tool_results import ToolResults
from deerflow.runtime.serialization import shown_part, subgraph_part, to_json


@dataclass(slots=True)
class Attempt:
    """A job while it is carried out: its log, and what readers have been told so far."""

    job: Job
    log: RunLog
    answer: PartialAnswer = field(default_factory=PartialAnswer)
    state: StateDiff | None = None
    tools: ToolResults = field(default_factory=ToolResults)

    @property
    def run(self) -> RunRecord:
        return self.job.run

    def take_in(self, namespace: Sequence[Sequence[str]], mode: Any, part: Any) -> None:
        """Log something that the graph, or one inside it, tells."""
        if any(namespace):
            self.log.append("subgraph", subgraph_part(namespace[0], mode, part))
        elif mode == "messages":
            self.tell_piece(*part)
        elif mode == "values" and self.state is not None:
            changes = self.state.against(part)
            self.tell(changes)
            self.log.outcomes.clear()  # the state has them now
            # What the agent no longer has in view was said all the same.
            self.job.records.hear(changes.messages)
            self.tools.add(changes.messages)
        else:
            self.log.append(mode, to_json(shown_part(mode, part)))

    def tell_piece(self, piece: BaseMessage, metadata: Mapping[str, object]) -> None:
        """Log a piece of a message."""
        if isinstance(piece, AIMessageChunk):
            superseded = self.answer.add(piece.id, piece.text, piece.additional_kwargs.get("reasoning_content"))
            if superseded is not None:  # the model was asked again: what it had begun to say is void
                self.tell(Changes(removed=[superseded]))
        self.log.append_piece(piece, metadata)

    def tell(self, changes: Changes) -> None:
        """Log what is different now."""
        if changes:
            thought = self.answer.forget([message.id for message in changes.messages])
            self.log.append("changes", replace(changes, thought_ms=thought).to_json())

    def waits_for(self, status: RunStatus) -> WaitsFor | None:
        """What a person has to say when the attempt has ended so."""
        if status is RunStatus.SUCCESS:
            return "answer" if self.job.records.asks else None
        is_paused = status is RunStatus.INTERRUPTED and self.state is not None and self.state.is_paused
        return "approval" if is_paused else None

    def correct(self, changes: Changes) -> None:
        """Log how things are after all: what is gone was never said."""
        self.tell(changes)
        self.job.records.said.forget(changes.removed)
        self.job.records.hear(changes.messages)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    status: RunStatus
    error_name: str | None = None
    error: str | None = None

    def to_json(self) -> bytes:
        """The data of an `error` event."""
        return to_json({"error": self.error_name, "name": self.error_name, "message": self.error})


def config_of(run: RunRecord) -> RunnableConfig:
    """How LangGraph is told which thread is meant, and its checkpointer whose attempt it is that writes."""
    return {"configurable": {"thread_id": run.thread_id, OWNER_KEY: Owner(run.run_id, run.attempt)}}
